package tx_test

import (
	"bytes"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testdb"
)

// A proxy stands between a client and PostgreSQL and damages the first COMMIT that passes after it was armed.
type proxy struct {
	listener net.Listener
	server   string
	damage   atomic.Int32
	mu       sync.Mutex
	conns    []net.Conn // guarded by mu
	hit      chan struct{}
}

// What a proxy does to a COMMIT.
const (
	cutReply   = iota + 1 // the server commits, then the connection breaks before its reply
	cutRequest            // the connection breaks before the server sees it
	holdReply             // the server commits, and its reply never comes
)

// throughProxy returns a URL that leads to a database of the test's own through a proxy, and a direct one.
func throughProxy(t testing.TB) (p *proxy, proxied, direct string) {
	t.Helper()
	direct = testdb.Postgres(t)
	u, err := url.Parse(direct)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p = &proxy{listener: listener, server: u.Host, hit: make(chan struct{})}
	go p.serve()
	t.Cleanup(p.close)
	u.Host = listener.Addr().String()
	return p, u.String(), direct
}

func (p *proxy) arm(damage int32) { p.damage.Store(damage) }

func (p *proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.server)
		if err != nil {
			_ = client.Close()
			return
		}
		p.mu.Lock()
		p.conns = append(p.conns, client, server)
		p.mu.Unlock()
		var damaged atomic.Int32
		go p.pipe(client, server, func(chunk []byte) bool {
			if !bytes.Contains(bytes.ToLower(chunk), []byte("commit\x00")) {
				return true
			}
			damage := p.damage.Swap(0)
			damaged.Store(damage)
			return damage != cutRequest
		})
		go p.pipe(server, client, func([]byte) bool {
			switch damaged.Load() {
			case cutReply:
				return false
			case holdReply:
				close(p.hit)
				damaged.Store(cutReply)
				_, _ = io.Copy(io.Discard, server) // until somebody closes
				return false
			}
			return true
		})
	}
}

// pipe copies from one side to the other, each chunk only if pass agrees, and then breaks both.
func (p *proxy) pipe(from, to net.Conn, pass func([]byte) bool) {
	defer func() { _ = from.Close(); _ = to.Close() }()
	chunk := make([]byte, 1<<16)
	for {
		n, err := from.Read(chunk)
		if n > 0 && !pass(chunk[:n]) {
			return
		}
		if err != nil {
			return
		}
		if _, err := to.Write(chunk[:n]); err != nil {
			return
		}
	}
}

func (p *proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		_ = c.Close()
	}
}
