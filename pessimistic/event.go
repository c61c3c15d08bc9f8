package pessimistic

import (
	"context"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
)

// Events that [Locks] tell the observer in [Options]. Name is the table, the queue's table, or the namespace. A call to
// another service that is refused because of the locks is told as [holdfast.EventCallRefused].
const (
	// EventLocked: rows, or advisory locks, were locked. Count is how many, Elapsed the time of the round trip that did it,
	// the wait for others included. A wait has no event of its own: the statement that locks does not say whether it waited,
	// and one that tries first would lock out of order, or cost a round trip. What is longer than the usual round trip was a
	// wait; log_lock_waits makes PostgreSQL tell of those above its deadlock_timeout.
	EventLocked holdfast.EventKind = "pessimistic.locked"
	// EventNotAvailable: somebody else holds a lock, and the policy does not wait for it, or no longer. Elapsed is the wait.
	EventNotAvailable holdfast.EventKind = "pessimistic.not_available"
	// EventClaimed: jobs were claimed. Count is how many, Elapsed the time of the round trip.
	EventClaimed holdfast.EventKind = "pessimistic.claimed"
	// EventHoldExceeded: a transaction kept its locks longer than Options.Hold and was ended. Elapsed is how long.
	EventHoldExceeded holdfast.EventKind = "pessimistic.hold_exceeded"
)

func (l *Locks[T]) observe(ctx context.Context, kind holdfast.EventKind, name string, count int, elapsed time.Duration, err error) {
	holdfast.Observe(ctx, l.o.Observer, holdfast.Event{Kind: kind, Name: name, Count: int64(count), Elapsed: elapsed, Err: err})
}

// note puts what is held into the scope of the transaction, so that no external call is made meanwhile.
func (l *Locks[T]) note(ctx context.Context, t T, name string) {
	if s := holdfast.LockScopeOf(l.db.Within(ctx, t)); s != nil {
		s.Hold(name, l.o.Observer)
	}
}
