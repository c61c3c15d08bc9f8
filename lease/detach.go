package lease

import (
	"context"
	"sync"
	"time"
)

// releaseTimeout bounds a release, so that one which nobody waits for ends.
const releaseTimeout = 5 * time.Second

// A bound is a context that ends in releaseTimeout, or up to a second later, for all that ask for it within that second: a timer
// for each release would cost as much as its request. The zero value is ready to use.
type bound struct {
	mu     sync.Mutex // guards what follows
	ctx    context.Context
	cancel context.CancelFunc // by the timer alone: others may use it still
	fresh  time.Time          // until when it is given out
}

func (b *bound) get() context.Context {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := time.Now(); b.ctx == nil || now.After(b.fresh) {
		b.ctx, b.cancel = context.WithTimeout(context.Background(), releaseTimeout+time.Second)
		b.fresh = now.Add(time.Second)
	}
	return b.ctx
}

// detach returns a context with the values of ctx that does not heed its end, only its deadline, and ends by itself.
func (b *bound) detach(ctx context.Context) (context.Context, context.CancelFunc) {
	if deadline, ok := ctx.Deadline(); ok && ctx.Err() == nil && time.Until(deadline) < releaseTimeout {
		return context.WithDeadline(context.WithoutCancel(ctx), deadline)
	}
	return detached{Context: b.get(), values: ctx}, func() {}
}

// detached has the end of one context and the values of another.
type detached struct {
	context.Context //nolint:containedctx // it is one

	values context.Context //nolint:containedctx // it is that of the caller, who waits
}

// Value implements [context.Context].
func (d detached) Value(key any) any { return d.values.Value(key) }

// AfterFunc spares those who wait for the end a goroutine: see [context.AfterFunc].
func (d detached) AfterFunc(f func()) (stop func() bool) { return context.AfterFunc(d.Context, f) }
