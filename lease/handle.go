package lease

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/jitter"
)

// An Advisory is a lease for efficiency: two holders do the same work twice now and then, and nothing worse. What must never
// happen twice takes a [Held] and its fence. It is renewed until it is released or lost, and is safe for concurrent use.
type Advisory struct {
	core   *core
	term   Term
	since  time.Time
	usable time.Duration // from the sending of a request until it must no longer be relied on
	ctx    context.Context
	cancel context.CancelCauseFunc

	released atomic.Bool

	mu       sync.Mutex   // guards what follows
	anchor   clock.Moment // right before the request that was last granted was sent
	timer    *time.Timer  // of the deadline; nil before the first renewal
	limit    *time.Timer  // HoldLimit; nil without
	ended    error        // released, or why it was lost
	asked    bool         // to resign
	failures int          // renewals that failed in a row
	failure  error        // of the last of them
}

// A Held is a lease for correctness: its [Fence] goes with every write.
type Held struct {
	*Advisory

	fence Fence
}

// Fence returns what the guarded resource checks.
func (h *Held) Fence() Fence { return h.fence }

// newAdvisory makes the handle of a grant that was asked for at anchor.
func newAdvisory(ctx context.Context, c *core, g Grant, anchor clock.Moment) *Advisory {
	h := &Advisory{
		core: c, term: Term{Name: g.Name, Token: g.Token, Nonce: g.Nonce, TTL: c.o.TTL},
		since: anchor.At, usable: c.o.TTL - c.o.Margin, anchor: anchor,
	}
	h.ctx, h.cancel = context.WithCancelCause(h.enter(context.WithoutCancel(ctx)))
	if c.o.HoldLimit > 0 {
		h.mu.Lock() // the timer may run before it is assigned
		defer h.mu.Unlock()
		h.limit = time.AfterFunc(c.o.HoldLimit, func() { _ = h.lose(HoldLimit, nil) })
	}
	return h
}

// Name is the name of the lease.
func (h *Advisory) Name() string { return h.term.Name }

// Context returns a context with the values of that of the acquisition, which ends when the lease is lost, before the store
// could give it to somebody else, or released, or when its holder is asked to resign. [context.Cause] tells which: a
// [*LostError], [ErrReleased] or [ErrResign].
//
// A process that was stopped notices late: a few instructions may run before its timers do. See [Advisory.Check].
func (h *Advisory) Context() context.Context { return h.ctx }

// Deadline is until when the lease may be relied on if it is not renewed. Each renewal moves it.
func (h *Advisory) Deadline() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.anchor.At.Add(h.usable)
}

// Check tells, by the clocks and without asking the store, whether the lease may be relied on at this moment. Call it right
// before each effect outside the database. It returns nil, a [*LostError] or [ErrReleased].
func (h *Advisory) Check() error {
	h.mu.Lock()
	ended, since, mono := h.ended, h.core.clock.Since(h.anchor), h.core.clock.Now().Sub(h.anchor.At)
	failure := h.failure
	h.mu.Unlock()
	switch {
	case ended != nil:
		return ended
	case since < h.usable:
		return nil
	case mono < h.usable:
		return h.lose(Suspended, failure)
	}
	return h.lose(Unreachable, failure)
}

// watch sets the timer of the deadline. It runs before the first renewal, a third into the lease: one that is held for a moment
// needs no timer.
func (h *Advisory) watch() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.timer == nil && h.ended == nil {
		h.timer = time.AfterFunc(h.usable-h.core.clock.Since(h.anchor), h.expire)
	}
}

// expire runs when the deadline may have come, on a timer of its own: a request that hangs does not delay it.
func (h *Advisory) expire() {
	h.mu.Lock()
	left := h.usable - h.core.clock.Since(h.anchor)
	if h.ended == nil && left > 0 { // renewed meanwhile
		h.timer.Reset(left)
		h.mu.Unlock()
		return
	}
	h.mu.Unlock()
	_ = h.Check()
}

// lose ends h, and returns why it ended first.
func (h *Advisory) lose(reason Reason, cause error) error {
	lost := &LostError{Name: h.term.Name, Token: h.term.Token, Reason: reason, Err: cause}
	first, why := h.end(lost)
	if first {
		h.core.observe(h.ctx, EventLost, h.term, time.Since(h.since), 0, lost)
	}
	return why
}

// end stops renewing and cancels, the first time. It returns why h ended.
func (h *Advisory) end(reason error) (first bool, why error) {
	h.core.renewer.Remove(h)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended != nil {
		return false, h.ended
	}
	h.ended = reason
	if h.timer != nil {
		h.timer.Stop()
	}
	if h.limit != nil {
		h.limit.Stop()
	}
	h.cancel(reason)
	return true, reason
}

// renewed takes in what became of a renewal that was sent at anchor.
func (h *Advisory) renewed(anchor clock.Moment, r Renewal) {
	if !r.Held {
		_ = h.lose(Stolen, nil)
		return
	}
	if r.Resign {
		h.resign()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended == nil {
		h.anchor, h.failures, h.failure = anchor, 0, nil
		h.timer.Reset(h.usable - h.core.clock.Since(anchor))
	}
}

// resign ends the context of h, and leaves the lease to the holder until it has come to an end of its work.
func (h *Advisory) resign() {
	h.mu.Lock()
	asked := h.asked || h.ended != nil
	h.asked = true
	h.mu.Unlock()
	if !asked {
		h.cancel(ErrResign)
		h.core.observe(h.ctx, EventResign, h.term, time.Since(h.since), 0, nil)
	}
}

// unrenewed takes in the error of a renewal, and returns how long to wait before the next one. The lease may have been renewed;
// the old deadline stands.
func (h *Advisory) unrenewed(err error) time.Duration {
	h.mu.Lock()
	h.failures++
	h.failure = err
	failures := h.failures
	h.mu.Unlock()
	h.core.observe(h.ctx, EventRenewFailed, h.term, 0, failures, err)
	return jitter.Full(h.term.TTL/100, h.term.TTL/4, failures)
}

// Released is what became of a release.
type Released int

const (
	// ReleaseUnknown: the reply was lost. The lease is free, or will be when its TTL is over.
	ReleaseUnknown Released = iota
	// ReleaseDone: the lease was held until now, and is free, or will be at the end of Options.AtLeast.
	ReleaseDone
	// AlreadyLost: the lease had been taken or evicted before. Nothing was changed.
	AlreadyLost
)

// String says it in words.
func (r Released) String() string {
	switch r {
	case ReleaseDone:
		return "released"
	case AlreadyLost:
		return "lost before"
	case ReleaseUnknown:
		return "unknown"
	}
	return fmt.Sprintf("Released(%d)", int(r))
}

// Release gives the lease back and ends the handle's context. It does not heed the end of ctx, only its deadline, so that a
// deferred release works in a request that was cancelled; 6 s is the longest that it takes. A second release is [AlreadyLost].
// The error comes with ReleaseUnknown.
func (h *Advisory) Release(ctx context.Context) (Released, error) {
	if !h.released.CompareAndSwap(false, true) {
		return AlreadyLost, nil
	}
	_, _ = h.end(ErrReleased)
	outcome, err := h.core.release(ctx, h.term)
	told := err
	if outcome == AlreadyLost {
		told = ErrLost
	}
	h.core.observe(ctx, EventReleased, h.term, time.Since(h.since), 0, told)
	return outcome, err
}

// observe tells the observer of an event about one term.
func (c *core) observe(ctx context.Context, kind holdfast.EventKind, t Term, elapsed time.Duration, attempt int, err error) {
	holdfast.Observe(ctx, c.o.Observer, holdfast.Event{
		Kind: kind, Name: t.Name, Key: strconv.FormatInt(t.Token, 10), Elapsed: elapsed, Attempt: attempt, Err: err,
	})
}
