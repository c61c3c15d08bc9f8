package holdfast

import (
	"context"
	"time"
)

// An EventKind names what happened, as "package.event": "idem.replayed", "tx.retried". The set of kinds is small and
// fixed, so a kind is safe as a metric label. Each package documents its own kinds beside the constants.
type EventKind string

// An Event is one thing that a Holdfast package did or refused to do. Fields that do not apply are zero.
type Event struct {
	// Kind names what happened.
	Kind EventKind
	// Name is the operation, consumer or resource it happened to, as the caller named it: a metric label of low
	// cardinality.
	Name string
	// Key identifies the one thing among those of the same Name. It is a digest where the original could be a secret
	// or personal, and of high cardinality: for logs, not for metrics.
	Key string
	// CorrelationID is the ID that [WithCorrelationID] put into the context of the call.
	CorrelationID string
	// Attempt is the number of the attempt, from 1.
	Attempt int
	// Count is the number of things concerned, where an event stands for many.
	Count int64
	// Elapsed is the time that the reported step took.
	Elapsed time.Duration
	// Delay is how long is waited before the next attempt.
	Delay time.Duration
	// Err is the error that goes with the event, if any.
	Err error
}

// An Observer is told of events. Observe is called on the goroutine of the operation, before the operation returns:
// it must be safe for concurrent use, quick, and must not panic. A nil Observer is silent in every package.
type Observer interface {
	Observe(ctx context.Context, e Event)
}

// ObserverFunc makes an [Observer] of a function.
type ObserverFunc func(ctx context.Context, e Event)

// Observe calls f.
func (f ObserverFunc) Observe(ctx context.Context, e Event) { f(ctx, e) }

// Observe tells o of e with the correlation ID of ctx, and does nothing if o is nil.
func Observe(ctx context.Context, o Observer, e Event) {
	if o == nil {
		return
	}
	e.CorrelationID = CorrelationID(ctx)
	o.Observe(ctx, e)
}
