package redisflight

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/holdfast-go/holdfast/internal/jitter"
	"github.com/holdfast-go/holdfast/singleflight"
)

const (
	// rounds is how often a flight begins again after what it found or loaded was of no use. Two are enough to be right: the
	// second load begins after everybody who waits for it came.
	rounds = 3

	firstPause = 5 * time.Millisecond
	maxPause   = 100 * time.Millisecond
)

// fetch is one flight: it looks, and then loads, or waits for whoever does.
func (c *Cache[V]) fetch(ctx context.Context, key string) (V, error) {
	k, begun, waited := c.keys(key), time.Now(), 0
	for round := 1; ; {
		token := rand.Text()
		found, err := c.look(ctx, k, token)
		switch {
		case ctx.Err() != nil:
			if found.status == statusGranted { // all left as the reply came
				c.letGo(ctx, k, token)
			}
			var none V
			return none, context.Cause(ctx)
		case err != nil:
			return c.alone(ctx, k, key, err)
		case found.status == statusHeld && leads(ctx, found.text):
			var none V
			return none, singleflight.ErrNested
		case found.status == statusHeld:
			waited++
			if err := c.pause(ctx, waited); err != nil {
				var none V
				return none, err
			}
			continue
		case found.status == statusValue:
			r, err := c.open(found.text)
			if err == nil {
				c.arrived(ctx, k, begun, waited)
				return r.value, r.err
			}
			c.observe(ctx, EventUnreadable, k, 0, err)
			_, dropped := c.ask(ctx, dropScript, []string{k.value}, nil, found.text)
			if round == rounds || dropped != nil {
				return c.alone(ctx, k, key, err)
			}
		default:
			r, settled := c.lead(ctx, k, key, token)
			if settled || round == rounds {
				return r.value, r.err
			}
			// Who comes from here on may know of the change that made it out of date. Those who wait came before, and the next
			// load begins now.
			c.group.Invalidate(key)
		}
		round++
	}
}

// arrived observes how a value was found.
func (c *Cache[V]) arrived(ctx context.Context, k keys, begun time.Time, waited int) {
	if waited == 0 {
		c.observe(ctx, EventHit, k, 0, nil)
		return
	}
	c.observe(ctx, EventWaited, k, time.Since(begun), nil)
}

// alone loads without Redis, for the callers in this process.
func (c *Cache[V]) alone(ctx context.Context, k keys, key string, why error) (V, error) {
	r := c.load(ctx, k, key)
	c.observe(ctx, EventUnstored, k, 0, why)
	return r.value, r.err
}

func (c *Cache[V]) load(ctx context.Context, k keys, key string) result[V] {
	begun := time.Now()
	value, err := c.source(ctx, key)
	c.observe(ctx, EventLoaded, k, time.Since(begun), err)
	return result[V]{value, err}
}

// lead loads under the lease. It is settled unless what was loaded is refused.
func (c *Cache[V]) lead(ctx context.Context, k keys, key, token string) (r result[V], settled bool) {
	stop := c.renew(ctx, k, token)
	owns := true
	defer func() { // also after a panic or Goexit
		stop()
		if owns {
			c.letGo(ctx, k, token)
		}
	}()
	begun := time.Now()
	r = c.load(context.WithValue(ctx, leadingKey{}, &leading{token, leadingOf(ctx)}), k, key)
	envelope, life, err := c.seal(token, r, time.Since(begun))
	if err != nil {
		c.observe(ctx, EventUnstored, k, 0, err)
		return r, true
	}
	if life == 0 { // an error that is no answer: whoever waits may try at once
		return r, true
	}
	reply, err := c.ask(ctx, publishScript, []string{k.value, k.lease}, nil, token, envelope, life.Milliseconds())
	if err != nil {
		c.observe(ctx, EventUnstored, k, 0, err)
		return r, true
	}
	owns = false
	if reply != int64(1) {
		c.observe(ctx, EventRefused, k, 0, nil)
		return r, false
	}
	return r, true
}

// pause waits before another look.
func (c *Cache[V]) pause(ctx context.Context, attempt int) error {
	timer := time.NewTimer(jitter.Full(firstPause, min(maxPause, c.o.OwnerTimeout/4), attempt))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
