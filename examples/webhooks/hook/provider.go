package hook

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/examples/internal/story"
)

// senders is how many deliveries are under way at once.
const senders = 8

// schedule returns each payload 1 to 5 times, shuffled. One delivery in six comes twice in a row: the provider timed out,
// and delivers again while the first is still being handled.
func schedule(payloads []Payload, seed uint64) []Payload {
	random := rand.New(rand.NewPCG(seed, 0))
	var shuffled []Payload
	for _, payload := range payloads {
		for range 1 + random.IntN(5) {
			shuffled = append(shuffled, payload)
		}
	}
	random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	var deliveries []Payload
	times := map[string]int{}
	for i, payload := range shuffled {
		deliveries = append(deliveries, payload)
		if times[payload.Delivery]++; i%6 == 0 && times[payload.Delivery] < 5 {
			deliveries = append(deliveries, payload)
			times[payload.Delivery]++
		}
	}
	return deliveries
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
