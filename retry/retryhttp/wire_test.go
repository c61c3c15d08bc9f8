package retryhttp_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/retry/retryhttp"
)

// A ledger is a server on the wire. It does what each request asks, once for each key, and then its reply may be lost.
type ledger struct {
	url string

	mu      sync.Mutex // guards all below
	sent    int
	bodies  []string
	effects int
	keys    map[string]bool
}

// keep starts a ledger. reply writes to the connection after the n-th request, from 1, and says whether that stays open.
func keep(t *testing.T, reply func(n int, conn net.Conn) (open bool)) *ledger {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &ledger{url: "http://" + listener.Addr().String(), keys: map[string]bool{}}
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
				defer stop()
				defer func() { _ = conn.Close() }()
				for in := bufio.NewReader(conn); ; {
					r, err := http.ReadRequest(in)
					if err != nil || !reply(l.apply(r), conn) {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		cancel()
		all.Wait()
	})
	return l
}

// apply does what a request asks for, if the whole of it came.
func (l *ledger) apply(r *http.Request) (n int) {
	body, err := io.ReadAll(r.Body)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent++
	l.bodies = append(l.bodies, string(body))
	key := r.Header.Get("Idempotency-Key")
	if err == nil && (key == "" || !l.keys[key]) {
		l.effects++
		l.keys[key] = true
	}
	return l.sent
}

func (l *ledger) counts() (sent, effects int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sent, l.effects
}

func text(s string) func(net.Conn) {
	return func(conn net.Conn) { _, _ = io.WriteString(conn, s) }
}

// The server has acted, and what comes back is no answer: a request without a key is not sent again, and its outcome is unknown.
// One with a key is sent until there is an answer, with that key, and has one effect.
func TestTheServerActsAndItsReplyIsLost(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(net.Conn){
		"closed":             func(net.Conn) {},
		"reset":              func(conn net.Conn) { _ = conn.(*net.TCPConn).SetLinger(0) },
		"half a status":      text("HTTP/1.1 20"),
		"half a header":      text("HTTP/1.1 201 Created\r\nContent-Le"),
		"no HTTP":            text("\x00\xff nothing of the kind\r\n\r\n"),
		"continue, and then": text("HTTP/1.1 100 Continue\r\n\r\n"),
		"silence":            func(conn net.Conn) { _, _ = conn.Read(make([]byte, 1)) }, // until the client hangs up
		"a bad length":       text("HTTP/1.1 200 OK\r\nContent-Length: -7\r\n\r\n"),
	} {
		for _, c := range []struct {
			method, key   string
			sent, effects int
			err           error
		}{
			{"POST", "", 1, 1, retryhttp.ErrNoKey},
			{"PATCH", "", 1, 1, retryhttp.ErrNoKey},
			{"POST", "k", 3, 1, nil},
			{"PATCH", "k", 3, 1, nil},
			{"PUT", "", 3, 3, nil},
			{"DELETE", "", 3, 3, nil},
			{"GET", "", 3, 3, nil},
		} {
			if name == "silence" && c.method != "POST" {
				continue // each takes seconds
			}
			t.Run(name+", "+c.method+c.key, func(t *testing.T) {
				t.Parallel()
				l := keep(t, func(n int, conn net.Conn) bool {
					if n < 3 {
						lose(conn)
						return false
					}
					text("HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok")(conn)
					return true
				})
				var o retryhttp.Options
				if name == "silence" {
					o.Retry.AttemptTimeout = 2 * time.Second
				}
				res, err := newClient(t, o).Do(request(t, c.method, l.url, c.key, "body"))
				if err == nil {
					_ = res.Body.Close()
				}
				if !errors.Is(err, c.err) || c.err != nil && holdfast.OutcomeOf(err) != holdfast.Unknown {
					t.Errorf("got %v, which is %v", err, holdfast.OutcomeOf(err))
				}
				if sent, effects := l.counts(); sent != c.sent || effects != c.effects {
					t.Errorf("sent %d times with %d effects, want %d with %d", sent, effects, c.sent, c.effects)
				}
			})
		}
	}
}

// A reply whose header came is an answer. That its body is cut off is for the caller to see, and no reason to act again.
func TestABodyThatIsCutOffIsTheCallersToSee(t *testing.T) {
	t.Parallel()
	l := keep(t, func(_ int, conn net.Conn) bool {
		text("HTTP/1.1 201 Created\r\nContent-Length: 100\r\n\r\nhalf")(conn)
		return false
	})
	res, err := newClient(t, retryhttp.Options{}).Do(request(t, "POST", l.url, "k", "body"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	got, err := io.ReadAll(res.Body)
	if !errors.Is(err, io.ErrUnexpectedEOF) || string(got) != "half" || retryhttp.ErrorOf(res) != nil {
		t.Errorf("read %q, %v", got, err)
	}
	if sent, _ := l.counts(); sent != 1 {
		t.Errorf("sent %d times", sent)
	}
}

// R11: a connection that is reset in the middle of the body. The next attempt has all of it, from GetBody or from what was kept.
func TestR11AResetInTheMiddleOfTheBody(t *testing.T) {
	t.Parallel()
	whole := strings.Repeat("0123456789abcdef", 1<<18) // 4 MiB, more than what sockets hold
	for name, body := range map[string]io.Reader{
		"GetBody": strings.NewReader(whole), "a stream": io.MultiReader(strings.NewReader(whole)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var once sync.Once
			l := keep(t, func(_ int, conn net.Conn) bool {
				text("HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")(conn)
				return true
			})
			below := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := new(net.Dialer).DialContext(ctx, network, address)
				once.Do(func() { conn = &breaking{Conn: conn, left: 1 << 20} })
				return conn, err
			}}
			defer below.CloseIdleConnections()
			client := &http.Client{Transport: retryhttp.New(below, quick(retryhttp.Options{MaxBody: 8 << 20}))}
			r, err := http.NewRequestWithContext(t.Context(), "POST", l.url, body)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Idempotency-Key", "k")
			length := r.ContentLength
			res, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.sent != 2 || l.effects != 1 || l.bodies[1] != whole || len(l.bodies[0]) >= len(whole) || r.ContentLength != length {
				t.Errorf("sent %d times with %d effects; the bodies had %d and %d bytes", l.sent, l.effects, len(l.bodies[0]), len(l.bodies[len(l.bodies)-1]))
			}
		})
	}
}

// breaking is a connection that is reset after some bytes.
type breaking struct {
	net.Conn

	left int
}

// Write writes what is left, then resets.
func (b *breaking) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		_ = b.Conn.(*net.TCPConn).SetLinger(0)
		_ = b.Conn.Close()
	}
	return b.Conn.Write(p)
}
