package rediscounter_test

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// A proxy stands between a client and Redis. It counts what the client sends that has a word, and loses the first replies
// to that: the server has done what it was told, and the client waits in vain.
type proxy struct {
	address string
	server  string
	tasks   sync.WaitGroup

	mu    sync.Mutex // guards all below
	word  string
	lose  int
	sent  int
	conns map[net.Conn]bool
	down  bool
}

func startProxy(t *testing.T, server string) *proxy {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{address: listener.Addr().String(), server: server, conns: map[net.Conn]bool{}}
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
		listener.Close()
		p.mu.Lock()
		p.down = true
		for conn := range p.conns {
			conn.Close()
		}
		p.mu.Unlock()
		p.tasks.Wait()
	})
	return p
}

// watch counts what has the word from now on, in any case, and loses the first replies to it.
func (p *proxy) watch(word string, lose int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.word, p.lose, p.sent = strings.ToLower(word), lose, 0
}

func (p *proxy) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sent
}

// keep closes the connection in the end. It reports whether that is not yet.
func (p *proxy) keep(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[conn] = true
	return !p.down
}

// seen reports whether the reply to what was sent is lost.
func (p *proxy) seen(text []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !strings.Contains(strings.ToLower(string(text)), p.word) {
		return false
	}
	p.sent++
	p.lose--
	return p.lose >= 0
}

func (p *proxy) serve(ctx context.Context, client net.Conn) {
	defer client.Close()
	up, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.server)
	if err != nil {
		return
	}
	defer up.Close()
	if !p.keep(client) || !p.keep(up) {
		return
	}
	var mu sync.Mutex
	deaf := false
	p.tasks.Go(func() { // the replies
		defer client.Close()
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
				client.Write(buffer[:n])
			}
		}
	})
	buffer := make([]byte, 1<<16)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		if p.seen(buffer[:n]) {
			mu.Lock()
			deaf = true
			mu.Unlock()
		}
		if _, err := io.Copy(up, strings.NewReader(string(buffer[:n]))); err != nil {
			return
		}
	}
}
