package pessimistic

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/tx"
)

// Do locks rows as [Locks.Lock] does and calls fn, in a transaction of its own that [tx.DB.Run] begins, commits and runs
// again. The locks ride with BEGIN on pgx; statements that fn gives to [tx.DB.Defer] ride with COMMIT, so that a transfer is two
// round trips. In a closure of a DB on the same pool it takes a savepoint.
//
// It returns the errors of [tx.DB.Do], around a [*MissingError] (fn was not called), a [*HoldError] or what fn returned, and a
// [*NotAvailableError] around them when a lock could not be had.
func (l *Locks[T]) Do(ctx context.Context, rows []Rows, fn func(ctx context.Context, t T) error) error {
	if fn == nil {
		return refused(tx.ErrNilFunc)
	}
	rows, err := l.check(rows)
	if err != nil {
		return refused(err)
	}
	for _, r := range rows {
		if _, err := r.distinct(); err != nil {
			return refused(err)
		}
	}
	var q *request
	return l.begin(ctx, attempt[T]{
		name: func() string { return q.name() },
		lead: func() []*tx.Stmt {
			q, _ = l.request(rows) // checked above
			return q.stmts
		},
		work: func(ctx context.Context, t T) error {
			if err := l.locked(ctx, t, q); err != nil {
				return err
			}
			return l.within(ctx, t, q.name(), fn)
		},
	})
}

// attempt is a transaction of ours whose locks lead.
type attempt[T any] struct {
	name func() string
	lead func() []*tx.Stmt
	work func(ctx context.Context, t T) error
}

// begin runs a. A lock that cannot be had is told as such, unless the closure is to blame.
func (l *Locks[T]) begin(ctx context.Context, a attempt[T]) error {
	var begun time.Time
	led := false
	err := l.db.Run(ctx, tx.Plan[T]{
		Lead: func() []*tx.Stmt {
			begun, led = time.Now(), false
			return a.lead()
		},
		Work: func(ctx context.Context, t T) error {
			led = true
			return a.work(ctx, t)
		},
	})
	if !led && unavailable(err) {
		return l.unavailable(ctx, a.name(), begun, err)
	}
	return err
}

// within calls fn for as long as the locks may be held. What fn did is not committed after that, even if nobody noticed.
func (l *Locks[T]) within(ctx context.Context, t T, name string, fn func(context.Context, T) error) error {
	if l.o.Hold <= 0 {
		return tx.NoDiscard(fn(ctx, t))
	}
	since := time.Now()
	hctx, cancel := context.WithTimeoutCause(ctx, l.o.Hold, ErrHoldBudget)
	defer cancel()
	err := tx.NoDiscard(fn(hctx, t))
	if time.Since(since) < l.o.Hold && !errors.Is(context.Cause(hctx), ErrHoldBudget) {
		return err
	} // a process that stood still may come here before its timers
	held := &HoldError{Budget: l.o.Hold, Err: err}
	l.observe(ctx, EventHoldExceeded, name, 0, time.Since(since), held)
	return held
}
