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
)

// provider delivers as providers do: at least once, in no order, until it is told 2xx.
type provider struct {
	base     string
	requests atomic.Int64
}

// deliverAll delivers each payload 1 to 5 times, shuffled, some at once. progress is called before each delivery is handed
// to a sender.
func (p *provider) deliverAll(ctx context.Context, payloads []Payload, seed uint64, progress func(sent, total int) error) error {
	random := rand.New(rand.NewPCG(seed, 0))
	var all []Payload
	for _, payload := range payloads {
		for range 1 + random.IntN(5) {
			all = append(all, payload)
		}
	}
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	// Some deliveries follow their first at once: a timeout on the provider's side.
	for i := 1; i < len(all); i += 7 {
		all[i] = all[i-1]
	}
	all = append(all, payloads...) // the shuffle may have taken somebody's only delivery

	queue := make(chan Payload)
	const senders = 8
	errs := make([]error, senders)
	var wg sync.WaitGroup
	for i := range senders {
		wg.Go(func() {
			for payload := range queue {
				errs[i] = errors.Join(errs[i], p.deliver(ctx, payload))
			}
		})
	}
	var err error
	for i, payload := range all {
		if err = progress(i, len(all)); err != nil {
			break
		}
		queue <- payload
	}
	close(queue)
	wg.Wait()
	return errors.Join(append(errs, err)...)
}

// deliver posts the payload until it is acknowledged.
func (p *provider) deliver(ctx context.Context, payload Payload) error {
	wait := 2 * time.Millisecond
	for {
		status, err := p.post(ctx, payload, Sign([]byte(payload.Body)))
		if err == nil && status/100 == 2 {
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
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.base+"/webhooks", strings.NewReader(payload.Body))
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
