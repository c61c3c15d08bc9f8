// Package wire is a proxy for the PostgreSQL protocol. It counts round trips, adds the delay of a network, and breaks
// connections at chosen messages: just before one, or after the server did what it says and before the client hears of
// it.
//
// A round trip is one ReadyForQuery of the server after the start of the connection, or one Flush of the client. The
// proxy speaks no TLS: it declines it, so a URL must not insist on it.
package wire

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// A Proxy stands between clients and a server. It is safe for concurrent use.
type Proxy struct {
	listener net.Listener
	server   string
	url      string
	delay    time.Duration
	trips    atomic.Int64
	running  sync.WaitGroup

	mu       sync.Mutex // guards all below
	hooks    []*Hook
	script   func(Message) Step
	sessions map[*session]struct{}
	refusing bool
	closed   bool
	deaf     bool // to requests to cancel
}

// Start starts a proxy for the server at a URL. delay is added in each direction, without a bound on throughput.
func Start(server string, delay time.Duration) (*Proxy, error) {
	u, err := url.Parse(server)
	if err != nil {
		return nil, errors.New("wire: the address of the server is not a URL") // which can hold a password
	}
	if u.Hostname() == "" {
		return nil, fmt.Errorf("wire: the URL names no host: only TCP is served")
	}
	port := u.Port()
	if port == "" {
		port = "5432"
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		listener: listener, server: net.JoinHostPort(u.Hostname(), port), delay: delay, sessions: map[*session]struct{}{},
	}
	u.Host = listener.Addr().String()
	p.url = u.String()
	p.running.Add(1)
	go p.accept()
	return p, nil
}

// URL is the address of the server through the proxy.
func (p *Proxy) URL() string { return p.url }

// Trips is the number of round trips since the start or the last [Proxy.Reset]. A trip is counted before its reply
// reaches the client.
func (p *Proxy) Trips() int { return int(p.trips.Load()) }

// Reset sets the count of round trips to 0.
func (p *Proxy) Reset() { p.trips.Store(0) }

// Close breaks all connections and waits until they are gone. It releases every held reply.
func (p *Proxy) Close() error {
	err := p.listener.Close()
	p.mu.Lock()
	p.closed = true
	for s := range p.sessions {
		s.close()
	}
	p.mu.Unlock()
	p.running.Wait()
	return err
}

// Break breaks all connections of now. New ones are served.
func (p *Proxy) Break() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.sessions {
		s.close()
	}
}

func (p *Proxy) accept() {
	defer p.running.Done()
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.running.Add(1)
		go p.serve(client)
	}
}

func (p *Proxy) serve(client net.Conn) {
	defer p.running.Done()
	server, err := net.DialTimeout("tcp", p.server, 10*time.Second)
	if err != nil {
		_ = client.Close() // as if the server itself could not be reached
		return
	}
	s := newSession(p, client, server)
	if !p.add(s) {
		s.close()
		return
	}
	s.run()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.sessions, s)
}

func (p *Proxy) add(s *session) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.refusing {
		return false
	}
	p.sessions[s] = struct{}{}
	return true
}

// at returns the hooks that act at m.
func (p *Proxy) at(m Message) []*Hook {
	taken, script := p.taken(m)
	if script == nil {
		return taken
	}
	if step := script(m); step.some {
		h := newHook(nil, step.act)
		h.then = step.then
		taken = append(taken, h)
	}
	return taken
}

func (p *Proxy) taken(m Message) (taken []*Hook, script func(Message) Step) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range p.hooks {
		if h.take(m) {
			taken = append(taken, h)
		}
	}
	return taken, p.script
}
