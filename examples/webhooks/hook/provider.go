package hook

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/examples/internal/story"
)

// senders is how many deliveries are under way at once.
const senders = 8

// schedule returns each payload 1 to 5 times, shuffled. Half of those that come again do so at once: the provider timed
// out, and delivers again while the first is still being handled.
func schedule(payloads []Payload, seed uint64) []Payload {
	random := rand.New(rand.NewPCG(seed, 0))
	var groups [][]Payload
	for _, payload := range payloads {
		n := 1 + random.IntN(5)
		if n > 1 && random.IntN(2) == 0 {
			groups = append(groups, []Payload{payload, payload})
			n -= 2
		}
		for range n {
			groups = append(groups, []Payload{payload})
		}
	}
	random.Shuffle(len(groups), func(i, j int) { groups[i], groups[j] = groups[j], groups[i] })
	return slices.Concat(groups...)
}

// provider delivers as providers do: at least once, in no order, until it is told 2xx.
type provider struct {
	server   *story.Server
	requests atomic.Int64
}

// deliverAll delivers in parallel, in the order given.
func (p *provider) deliverAll(ctx context.Context, deliveries []Payload) error {
	queue := make(chan Payload, len(deliveries))
	for _, payload := range deliveries {
		queue <- payload
	}
	close(queue)
	errs := make([]error, senders)
	var wg sync.WaitGroup
	for i := range senders {
		wg.Go(func() {
			for payload := range queue {
				errs[i] = errors.Join(errs[i], p.deliver(ctx, payload))
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// deliver posts the payload until it is acknowledged.
func (p *provider) deliver(ctx context.Context, payload Payload) error {
	wait := 2 * time.Millisecond
	for {
		status, err := p.post(ctx, payload, Sign([]byte(payload.Body)))
		if err == nil && status/100 == 2 {
			p.server.Answered()
			return nil
		}
		if err == nil && status/100 == 4 {
			return fmt.Errorf("delivery %s got %d", payload.Delivery, status)
		}
		select {
		case <-time.After(wait):
			wait = min(2*wait, 200*time.Millisecond)
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

func (p *provider) post(ctx context.Context, payload Payload, signature string) (int, error) {
	p.requests.Add(1)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.server.URL()+"/webhooks", strings.NewReader(payload.Body))
	if err != nil {
		return 0, err
	}
	r.Header.Set("X-GitHub-Event", payload.Event)
	r.Header.Set("X-GitHub-Delivery", payload.Delivery)
	r.Header.Set("X-Hub-Signature-256", signature)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	return res.StatusCode, res.Body.Close()
}
