package pay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/examples/internal/story"
)

// client behaves as clients on bad networks do.
type client struct {
	server   *story.Server
	requests atomic.Int64
	mu       sync.Mutex // guards the two below
	acked    map[bought]Receipt
	wrong    []string // answers that a client must not get
}

// bought is what a receipt is for.
type bought struct{ tenant, order string }

// answer is what a client gets.
type answer struct {
	status   int
	replayed bool
	body     []byte
}

// A till is where a client pays: one of the routes.
type till struct {
	*client
	path string
}

// at returns the till of payment n. Every occasion comes to both.
func (c *client) at(n int) till { return till{c, paths[n/10%len(paths)]} }

func newClient(server *story.Server) *client {
	return &client{server: server, acked: map[bought]Receipt{}}
}

func (c *client) complain(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wrong = append(c.wrong, fmt.Sprintf(format, args...))
}

// send makes one request.
func (c till) send(ctx context.Context, tenant, key string, p Payment) (answer, error) {
	c.requests.Add(1)
	body, err := json.Marshal(p)
	if err != nil {
		return answer{}, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.server.URL()+c.path, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	r.Header.Set("Idempotency-Key", key)
	r.Header.Set("X-Tenant", tenant)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	return answer{status: res.StatusCode, replayed: res.Header.Get("Idempotency-Replayed") != "", body: text}, err
}

// pay sends a payment until there is an answer, always with the same key.
func (c till) pay(ctx context.Context, tenant, key string, p Payment) (answer, error) {
	wait := 2 * time.Millisecond
	for {
		a, err := c.send(ctx, tenant, key, p)
		if err == nil && a.status != http.StatusConflict && a.status != http.StatusServiceUnavailable {
			c.server.Answered()
			return a, nil
		}
		select {
		case <-time.After(wait):
			wait = min(2*wait, 100*time.Millisecond)
		case <-ctx.Done():
			return a, errors.Join(ctx.Err(), err, fmt.Errorf("payment %s: %d %s", key, a.status, a.body))
		}
	}
}

// cut sends a payment and hangs up: when the reply arrives, of which it takes nothing, so that the server has committed and
// the client does not know; or at once, in the middle of the server's work.
func (c till) cut(ctx context.Context, tenant, key string, p Payment, atOnce bool) {
	c.requests.Add(1)
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", c.server.Address)
	if err != nil {
		return // the server is down, and the client no wiser
	}
	defer func() { _ = conn.Close() }()
	body, err := json.Marshal(p)
	if err != nil {
		return
	}
	_, _ = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: shop\r\nIdempotency-Key: %s\r\nX-Tenant: %s\r\nContent-Length: %d\r\n\r\n%s",
		c.path, key, tenant, len(body), body)
	if atOnce {
		return
	}
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	_, _ = conn.Read(make([]byte, 1)) // only to know that it is there
}
