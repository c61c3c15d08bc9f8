package lease

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
)

// newNonce makes the number of one acquisition. After a failover a token may be issued twice; a nonce is not.
func newNonce() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// acquire tries until the lease is free or ctx ends, and comes after those of this process who wait for it already. The first try
// joins nobody: a lease that is free costs its request alone.
func (c *core) acquire(ctx context.Context, name string) (h *Advisory, g Grant, err error) {
	since := time.Now()
	if err := c.refuse(ctx, wish{name: name}); err != nil {
		return nil, g, err
	}
	waiter, leaveQueue := c.joinQueue(ctx, name)
	defer func() { leaveQueue(h != nil) }()
	v := &vigil{core: c, name: name}
	defer v.leave()
	if cause := v.comeAfter(ctx); cause != nil {
		return nil, g, fmt.Errorf("%w: %w", &HeldError{Name: name}, cause)
	}
	var held *HeldError // by the last try that found out
	var seen time.Time  // when that was
	for attempt := 1; ; attempt++ {
		freed := c.frees.Load()
		h, g, err := c.try(ctx, wish{name: name, waiter: waiter}, since, attempt)
		switch cause := context.Cause(ctx); {
		case err == nil:
			if held != nil {
				c.observe(ctx, EventHandOver, h.term, time.Since(seen), attempt, held)
			}
			return h, g, nil
		case errors.As(err, &held):
			seen = time.Now()
		case errors.Is(err, ErrLost):
		case held != nil && cause != nil:
			return nil, g, fmt.Errorf("%w: %w", held, cause)
		default:
			return nil, g, err
		}
		if v.join() && c.frees.Load() != freed {
			continue // it may have been the one that was freed
		}
		if cause := v.await(ctx, held); cause != nil {
			return nil, g, fmt.Errorf("%w: %w", err, cause)
		}
	}
}

type nestedKey struct{}

// nest is a handle that a context is under.
type nest struct {
	handle *Advisory
	outer  *nest
}

// nested reports whether ctx is under a handle of w that has not been released: who waited for it would wait for itself.
func (c *core) nested(ctx context.Context, w wish) bool {
	n, _ := ctx.Value(nestedKey{}).(*nest)
	for ; n != nil; n = n.outer {
		held := n.handle.term.Name
		if w.slots != nil {
			held = SemaphoreOf(held)
		}
		if held == w.name && n.handle.core == c && !n.handle.released.Load() {
			return true
		}
	}
	return false
}

// enter returns ctx under h.
func (h *Advisory) enter(ctx context.Context) context.Context {
	outer, _ := ctx.Value(nestedKey{}).(*nest)
	return context.WithValue(ctx, nestedKey{}, &nest{handle: h, outer: outer})
}
