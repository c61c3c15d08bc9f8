// Package redisproxy stands between a client of Redis and the server, for tests: it counts what is sent, loses replies and holds
// requests back.
package redisproxy

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// A Proxy counts what the client sends that has a word, and loses the first replies to that: the server has done what it was told,
// and the client waits in vain.
type Proxy struct {
	// Address is where it listens.
	Address string
	server  string
	tasks   sync.WaitGroup

	mu    sync.Mutex // guards all below
	word  string
	lose  int
	sent  int
	hold  chan struct{} // closed to let requests that have the word go on; nil for none held
	held  chan struct{} // gets something for each request held
	conns map[net.Conn]bool
	down  bool
}

// Start starts a proxy that ends with the test.
func Start(t testing.TB, server string) *Proxy {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Address: listener.Addr().String(), server: server, conns: map[net.Conn]bool{}}
	ctx, cancel := context.WithCancel(context.Background())
	p.tasks.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			p.tasks.Go(func() { p.serve(ctx, conn) })
		}
	})
	t.Cleanup(func() {
		cancel()
		_ = listener.Close()
		p.mu.Lock()
		p.down = true
		for conn := range p.conns {
			_ = conn.Close()
		}
		p.mu.Unlock()
		p.tasks.Wait()
	})
	return p
}

// Watch counts what has the word from now on, in any case, and loses the first replies to it.
func (p *Proxy) Watch(word string, lose int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.word, p.lose, p.sent = strings.ToLower(word), lose, 0
}

// Count returns how often the word was sent.
func (p *Proxy) Count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sent
}

// Hold keeps requests that have the word back from now on. held gets something for each; release lets them, and those to come, go on.
func (p *Proxy) Hold(word string) (held <-chan struct{}, release func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.word, p.lose, p.sent = strings.ToLower(word), 0, 0
	hold := make(chan struct{})
	p.hold, p.held = hold, make(chan struct{}, 1000)
	return p.held, sync.OnceFunc(func() { close(hold) })
}

// keep closes the connection in the end. It reports whether that is not yet.
func (p *Proxy) keep(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[conn] = true
	return !p.down
}

// seen reports whether the reply to what was sent is lost, and what it has to wait for.
func (p *Proxy) seen(text []byte) (lost bool, hold <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !strings.Contains(strings.ToLower(string(text)), p.word) {
		return false, nil
	}
	p.sent++
	p.lose--
	if p.hold != nil {
		p.held <- struct{}{}
	}
	return p.lose >= 0, p.hold
}

func (p *Proxy) serve(ctx context.Context, client net.Conn) {
	defer func() { _ = client.Close() }()
	up, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.server)
	if err != nil {
		return
	}
	defer func() { _ = up.Close() }()
	if !p.keep(client) || !p.keep(up) {
		return
	}
	var mu sync.Mutex
	deaf := false
	p.tasks.Go(func() { // the replies
		defer func() { _ = client.Close() }()
		buffer := make([]byte, 1<<16)
		for {
			n, err := up.Read(buffer)
			if err != nil {
				return
			}
			mu.Lock()
			lost := deaf
			mu.Unlock()
			if !lost {
				_, _ = client.Write(buffer[:n])
			}
		}
	})
	buffer := make([]byte, 1<<16)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		lost, hold := p.seen(buffer[:n])
		if hold != nil {
			select {
			case <-hold:
			case <-ctx.Done():
				return
			}
		}
		if lost {
			mu.Lock()
			deaf = true
			mu.Unlock()
		}
		if _, err := io.Copy(up, strings.NewReader(string(buffer[:n]))); err != nil {
			return
		}
	}
}
