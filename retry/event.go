package retry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
)

// Events. Name is Options.Name, Key a digest of the operation's key, Attempt the number of the attempt.
const (
	// EventFailed: an attempt failed. Err is why, Elapsed how long it took, Delay how long until the next one; without a
	// next one it is 0 and EventGaveUp follows.
	EventFailed holdfast.EventKind = "retry.failed"
	// EventRecovered: an attempt succeeded after others had failed.
	EventRecovered holdfast.EventKind = "retry.recovered"
	// EventGaveUp: there is no further attempt, or was none at all. Err is the [*Error].
	EventGaveUp holdfast.EventKind = "retry.gave_up"
	// EventOpened: the breaker opened. Err is [ErrOpen].
	EventOpened holdfast.EventKind = "retry.breaker_opened"
	// EventClosed: the breaker closed.
	EventClosed holdfast.EventKind = "retry.breaker_closed"
)

// observe tells of an event of the call, if anybody listens.
func (c *call) observe(ctx context.Context, kind holdfast.EventKind, delay time.Duration, err error) {
	if c.p.o.Observer != nil {
		c.tell(ctx, kind, delay, err)
	}
}

func (c *call) tell(ctx context.Context, kind holdfast.EventKind, delay time.Duration, err error) {
	e := holdfast.Event{Kind: kind, Name: c.p.o.Name, Attempt: c.attempt.Number, Delay: delay, Err: err}
	if c.op.key != "" {
		sum := sha256.Sum256([]byte(c.op.key))
		e.Key = hex.EncodeToString(sum[:8])
	}
	if kind == EventFailed || kind == EventRecovered {
		e.Elapsed = time.Since(c.started)
	}
	holdfast.Observe(ctx, c.p.o.Observer, e)
}

// refused returns the error of a call without an attempt.
func (c *call) refused(ctx context.Context, why error) error {
	e := &Error{Stop: why, outcome: holdfast.NotApplied}
	c.observe(ctx, EventGaveUp, 0, e)
	return e
}

// admit asks the breaker, if there is one, for leave to make an attempt.
func (c *call) admit() error {
	if c.p.o.Breaker == nil {
		return nil
	}
	return c.ask()
}

func (c *call) ask() error {
	var ok bool
	if c.permit, ok = c.p.o.Breaker.admit(); !ok {
		return ErrOpen
	}
	return nil
}

// report tells the breaker, if there is one, what an attempt showed of the target.
func (c *call) report(ctx context.Context, r result) {
	if c.p.o.Breaker != nil {
		c.settle(ctx, r)
	}
}

func (c *call) settle(ctx context.Context, r result) {
	switch c.p.o.Breaker.done(c.permit, r) {
	case opened:
		c.observe(ctx, EventOpened, 0, ErrOpen)
	case closed:
		c.observe(ctx, EventClosed, 0, nil)
	}
}
