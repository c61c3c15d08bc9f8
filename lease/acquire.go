package lease

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/jitter"
)

// newNonce makes the number of one acquisition. After a failover a token may be issued twice; a nonce is not.
func newNonce() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// acquire tries until the lease is free or ctx ends.
func (c *core) acquire(ctx context.Context, name string) (h *Advisory, g Grant, err error) {
	since := time.Now()
	woken, leave := c.waits.join(name)
	defer leave()
	waiter, leaveQueue := c.joinQueue(ctx, name)
	defer func() { leaveQueue(h != nil) }()
	var held *HeldError // by the last try that found out
	var seen time.Time  // when that was
	for attempt := 1; ; attempt++ {
		wake := woken()
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
		if cause := c.await(ctx, held, wake); cause != nil {
			return nil, g, fmt.Errorf("%w: %w", err, cause)
		}
	}
}

// await pauses before the next try: with jitter, no longer than the lease has left.
func (c *core) await(ctx context.Context, held *HeldError, wake <-chan struct{}) error {
	longest := c.o.PollEvery
	if c.o.Fair && held != nil && held.Ahead == 0 {
		longest /= 5 // nobody else takes it while the next in turn sleeps
	}
	if held != nil && held.Remaining > 0 {
		longest = min(longest, held.Remaining+10*time.Millisecond)
	}
	timer := time.NewTimer(longest/2 + jitter.Full(longest/2, longest/2, 1))
	defer timer.Stop()
	select {
	case <-wake:
	case <-timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// waits lets a release wake those of this process who wait for its lease.
type waits struct {
	mu    sync.Mutex // guards names and what is in it
	names map[string]*wait
}

type wait struct {
	waiting  int
	released chan struct{} // closed at the next release
}

// join begins to wait for name. woken returns what the next release closes; ask it before each try.
func (w *waits) join(name string) (woken func() <-chan struct{}, leave func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.names == nil {
		w.names = map[string]*wait{}
	}
	at := w.names[name]
	if at == nil {
		at = &wait{released: make(chan struct{})}
		w.names[name] = at
	}
	at.waiting++
	woken = func() <-chan struct{} {
		w.mu.Lock()
		defer w.mu.Unlock()
		return at.released
	}
	leave = func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if at.waiting--; at.waiting == 0 {
			delete(w.names, name)
		}
	}
	return woken, leave
}

func (w *waits) wake(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if at := w.names[name]; at != nil {
		close(at.released)
		at.released = make(chan struct{})
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
