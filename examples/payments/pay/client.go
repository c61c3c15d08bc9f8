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
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// client behaves as clients on bad networks do.
type client struct {
	base     string
	requests atomic.Int64
	mu       sync.Mutex // guards the two below
	acked    map[string]Receipt
	breaches []string
}

func newClient(base string) *client {
	return &client{base: base, acked: map[string]Receipt{}}
}

func (c *client) breach(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.breaches = append(c.breaches, fmt.Sprintf(format, args...))
}

// send makes one request and returns the status and body.
func (c *client) send(ctx context.Context, tenant, key string, p Payment) (int, string, error) {
	c.requests.Add(1)
	body, err := json.Marshal(p)
	if err != nil {
		return 0, "", err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+"/payments", bytes.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("Idempotency-Key", key)
	r.Header.Set("X-Tenant", tenant)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, string(text), err
}

// pay sends a payment until there is an answer, always with the same key.
func (c *client) pay(ctx context.Context, tenant, key string, p Payment) (status int, body string, err error) {
	wait := 2 * time.Millisecond
	for {
		status, body, err = c.send(ctx, tenant, key, p)
		if err == nil && status != http.StatusConflict && status != http.StatusServiceUnavailable {
			return status, body, nil
		}
		select {
		case <-time.After(wait):
			wait = min(2*wait, 100*time.Millisecond)
		case <-ctx.Done():
			return status, body, errors.Join(ctx.Err(), err)
		}
	}
}

// cut sends a payment, waits until the reply arrives, and hangs up without reading it: the server has committed, and the
// client does not know.
func (c *client) cut(ctx context.Context, tenant, key string, p Payment) {
	c.requests.Add(1)
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", strings.TrimPrefix(c.base, "http://"))
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	body, _ := json.Marshal(p)
	_, _ = fmt.Fprintf(conn, "POST /payments HTTP/1.1\r\nHost: shop\r\nIdempotency-Key: %s\r\nX-Tenant: %s\r\nContent-Length: %d\r\n\r\n%s",
		key, tenant, len(body), body)
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	_, _ = conn.Read(make([]byte, 1))
}

// buy plays one customer: a click, a double click, a lost reply, and the retries.
func (c *client) buy(ctx context.Context, tenant, key string, p Payment) error {
	var wg sync.WaitGroup
	errs := make([]error, 3)
	for i := range errs {
		wg.Go(func() { errs[i] = c.ack(ctx, tenant, key, p) })
	}
	wg.Go(func() { c.cut(ctx, tenant, key, p) })
	wg.Wait()
	return errors.Join(append(errs, c.ack(ctx, tenant, key, p))...)
}

// ack pays and notes the receipt. Every answer to a key must be the same.
func (c *client) ack(ctx context.Context, tenant, key string, p Payment) error {
	status, body, err := c.pay(ctx, tenant, key, p)
	if err != nil {
		return err
	}
	if p.Amount > limit {
		if status != http.StatusPaymentRequired {
			c.breach("a declined payment got %d", status)
		}
		return nil
	}
	var r Receipt
	if err := json.Unmarshal([]byte(body), &r); err != nil || status != http.StatusCreated {
		return fmt.Errorf("payment %s got %d: %s", key, status, body)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if first, ok := c.acked[tenant+" "+p.Order]; ok && first != r {
		c.breaches = append(c.breaches, fmt.Sprintf("payment %s got two receipts", key))
	}
	c.acked[tenant+" "+p.Order] = r
	return nil
}
