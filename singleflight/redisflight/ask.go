package redisflight

import (
	"context"
	_ "embed"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed lua/look.lua
	lookSource string
	//go:embed lua/publish.lua
	publishSource string
	//go:embed lua/renew.lua
	renewSource string
	//go:embed lua/drop.lua
	dropSource string

	lookScript    = redis.NewScript(lookSource)
	publishScript = redis.NewScript(publishSource)
	renewScript   = redis.NewScript(renewSource)
	dropScript    = redis.NewScript(dropSource)
)

// What there can be for a key.
const (
	statusValue   = "value"
	statusGranted = "granted"
	statusHeld    = "held"
)

// A finding is what look found: an envelope, or the token of who loads.
type finding struct{ status, text string }

// look reads the value or takes the lease. Whatever happens to the caller meanwhile, a lease that it does not use is given back.
func (c *Cache[V]) look(ctx context.Context, k keys, token string) (finding, error) {
	giveBack := func() { c.letGo(ctx, k, token) }
	reply, err := c.ask(ctx, lookScript, []string{k.value, k.lease}, giveBack, token, c.o.OwnerTimeout.Milliseconds())
	if err != nil {
		return finding{}, err
	}
	parts, _ := reply.([]any)
	var texts [2]string
	for i := range min(len(parts), len(texts)) {
		texts[i], _ = parts[i].(string)
	}
	switch texts[0] {
	case statusValue, statusGranted, statusHeld:
		return finding{texts[0], texts[1]}, nil
	}
	return finding{}, errReply
}

// ask runs a script. It waits for the reply as long as ctx and Options.Timeout allow, which go-redis by itself does not heed
// while it reads. The request goes on without the caller: after is called at its end if it failed, or if nobody waited for it.
func (c *Cache[V]) ask(ctx context.Context, script *redis.Script, keys []string, after func(), args ...any) (any, error) {
	type reply struct {
		value any
		err   error
	}
	replies, gone := make(chan reply), make(chan struct{})
	defer close(gone)
	c.tasks.Go(func() {
		value, err := script.Run(context.WithoutCancel(ctx), c.client, keys, args...).Result()
		heard := false
		select {
		case replies <- reply{value, err}:
			heard = true
		case <-gone:
		}
		if after != nil && (err != nil || !heard) {
			after()
		}
	})
	timer := time.NewTimer(c.o.Timeout)
	defer timer.Stop()
	select {
	case r := <-replies:
		return r.value, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-timer.C:
		return nil, errSlow
	}
}

// letGo gives a lease back, if it is ours, and does not wait for that. If it fails, the lease ends after Options.OwnerTimeout.
func (c *Cache[V]) letGo(ctx context.Context, k keys, token string) {
	c.tasks.Go(func() {
		_ = dropScript.Run(context.WithoutCancel(ctx), c.client, []string{k.lease}, token).Err()
	})
}

// renew keeps the lease alive until stop is called. When ctx ends nobody here wants the value any more, and whoever does elsewhere
// need not wait for a load that goes on all the same.
func (c *Cache[V]) renew(ctx context.Context, k keys, token string) (stop func()) {
	done := make(chan struct{})
	c.tasks.Go(func() {
		ticker := time.NewTicker(c.o.OwnerTimeout / 3)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ctx.Done():
				select {
				case <-done: // the context ends after each flight, and the lease is gone by then
				default:
					c.letGo(ctx, k, token)
				}
				return
			case <-ticker.C:
			}
			reply, err := c.ask(context.WithoutCancel(ctx), renewScript, []string{k.lease}, nil, token, c.o.OwnerTimeout.Milliseconds())
			if err == nil && reply != int64(1) {
				return // lost for good: what is loaded will be refused
			}
		}
	})
	return func() { close(done) }
}
