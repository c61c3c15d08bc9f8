package charge

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/examples/internal/story"
)

const (
	orders  = 200
	clients = 8
)

// Run runs the story: the loop, and the transport with a key.
func Run(ctx context.Context, c story.Config) (story.Result, error) {
	r := story.Result{Story: "charge-client", Hazard: "retry of a non-idempotent call", Backend: "memory"}
	for _, act := range []struct {
		name string
		wrap func(http.RoundTripper) http.RoundTripper
		pay  func(ctx context.Context, client *http.Client, url, order string) error
		into *int
	}{
		{"a loop", func(next http.RoundTripper) http.RoundTripper { return next }, Loop, &r.NaiveDamage},
		{"retryhttp with a key", NewTransport, func(ctx context.Context, client *http.Client, url, order string) error {
			return Ours(ctx, client, url, order, order)
		}, &r.Damage},
	} {
		p := newProvider(troubles(c.Seed))
		server := httptest.NewServer(p)
		below := &http.Transport{MaxIdleConnsPerHost: clients}
		failed, err := rush(ctx, func(ctx context.Context, order string) error {
			return act.pay(ctx, &http.Client{Transport: act.wrap(below)}, server.URL, order)
		})
		below.CloseIdleConnections()
		server.Close()
		if err != nil {
			return r, err
		}
		charges, most := 0, 0
		for i := range orders {
			n := p.charged(orderOf(i))
			charges, most = charges+n, max(most, n)
			*act.into += max(n-1, 1-n)
		}
		c.Logf("%-21s %d orders, %d charges, up to %d for one; %d orders were not told", act.name, orders, charges, most, failed)
		r.Operations += orders
	}
	r.Judge()
	return r, nil
}

// troubles draws how often the answer about each order is lost: up to four times.
func troubles(seed uint64) map[string]int {
	dice := rand.New(rand.NewPCG(seed, orders))
	lost := map[string]int{}
	for i := range orders {
		lost[orderOf(i)] = dice.IntN(tries)
	}
	return lost
}

func orderOf(i int) string { return fmt.Sprintf("order-%d", i) }

// rush pays all orders, a few at a time, and returns how many were told of an error.
func rush(ctx context.Context, pay func(ctx context.Context, order string) error) (failed int64, err error) {
	var wg sync.WaitGroup
	var next, errs atomic.Int64
	for range clients {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < orders && ctx.Err() == nil; i = next.Add(1) - 1 {
				if pay(ctx, orderOf(int(i))) != nil {
					errs.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return errs.Load(), context.Cause(ctx)
}
