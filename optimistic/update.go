package optimistic

import (
	"context"
	"errors"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/jitter"
	"github.com/holdfast-go/holdfast/tx"
)

// An attempt is one run of a closure. It travels in the context of the closure.
type attempt struct {
	number int
	joined bool // in the transaction of a closure around it
	marks  []mark
}

type attemptKey struct{}

func attemptOf(ctx context.Context) *attempt {
	a, _ := ctx.Value(attemptKey{}).(*attempt)
	return a
}

// Attempt returns which attempt of [Rows.Update] or [Rows.Edit] the closure is in, from 1, or 0 outside one. [tx.Attempt] counts
// anew in each of them.
func Attempt(ctx context.Context) int {
	if a := attemptOf(ctx); a != nil {
		return a.number
	}
	return 0
}

// Update runs fn, which reads the row of key, decides, and writes with the version that it read, in a transaction of its own,
// and again in a fresh one when a race was lost: when fn returns an error that matches [ErrConflict], or the commit does, of what
// [Rows.SetAtCommit] left to it. fn must read the row each time, and must have no effect outside t that cannot be repeated: an
// e-mail or a charge in it happens in each attempt (see [Attempt]); what has to happen once belongs into the transaction or
// into [tx.AfterCommit]. Where all that fn does is to read the row and write it, [Rows.Edit] takes fewer round trips.
//
// Between attempts it waits with full jitter. After Options.LockAfter losses, and while the row is known to be hot, it locks
// the row before fn reads, where the database has row locks: writers then queue up instead of undoing each other's work. The
// lock is noted in the lock scope of fn's context, so that [holdfast.ExternalCall] refuses meanwhile.
//
// In a closure of a DB on the same pool, fn runs once, in a savepoint, and a conflict is the error: to read again in the same
// transaction could find the same forever.
//
// It returns nil if the commit is proved, also by the token of a write in it, a [*ContendedError] when it gave up, the conflict
// itself if fn came with the same version again, since it has it from outside and not from the row, and other errors of fn and of
// the database as [tx.DB.Do] does.
func (r *Rows[T]) Update(ctx context.Context, key any, fn func(ctx context.Context, t T) error) error {
	if err := r.ready(Want{Key: key}); err != nil {
		return err
	}
	if fn == nil {
		return invalid("the closure is nil")
	}
	return r.persist(ctx, key, func(ctx context.Context, locked bool) error { return r.try(ctx, key, locked, fn) })
}

// persist calls try until it loses no race, with the row locked where it takes that.
func (r *Rows[T]) persist(ctx context.Context, key any, try func(ctx context.Context, locked bool) error) error {
	if _, joins := r.db.Current(ctx); joins {
		return r.once(ctx, try)
	}
	p := r.heat.of(key)
	p.inside.Add(1)
	defer p.inside.Add(-1)
	var last error
	var before *ConflictError
	for number := 1; ; number++ {
		err, stop := r.race(ctx, p, key, number, try)
		switch {
		case stop != nil && last == nil:
			return &tx.AbortError{Err: stop}
		case stop != nil:
			return r.gaveUp(ctx, key, &ContendedError{Attempts: number - 1, Stop: stop, Last: last})
		case errors.Is(err, ErrApplied):
			return nil
		case !errors.Is(err, ErrConflict) || holdfast.OutcomeOf(err) != holdfast.NotApplied:
			return err
		}
		last = err
		var conflict *ConflictError
		if errors.As(err, &conflict) {
			if before != nil && nameOf(before.Key) == nameOf(conflict.Key) && before.Expected == conflict.Expected {
				return err
			}
			before = conflict
		}
		if stop := r.pause(ctx, p, number); stop != nil {
			return r.gaveUp(ctx, key, &ContendedError{Attempts: number, Stop: stop, Last: err})
		}
	}
}

// once calls try, in whatever transaction ctx belongs to.
func (r *Rows[T]) once(ctx context.Context, try func(ctx context.Context, locked bool) error) error {
	_, joins := r.db.Current(ctx)
	return try(context.WithValue(ctx, attemptKey{}, &attempt{number: 1, joined: joins}), false)
}

func (r *Rows[T]) gaveUp(ctx context.Context, key any, err *ContendedError) error {
	r.observe(numbered(ctx, err.Attempts), EventContended, key, err)
	return err
}

func numbered(ctx context.Context, number int) context.Context {
	return context.WithValue(ctx, attemptKey{}, &attempt{number: number})
}

// try runs fn once, but for what the transaction itself runs again.
func (r *Rows[T]) try(ctx context.Context, key any, locked bool, fn func(context.Context, T) error) error {
	var lock *tx.Stmt
	return r.db.Run(ctx, tx.Plan[T]{
		Lead: func() []*tx.Stmt {
			if !locked {
				return nil
			}
			lock = &tx.Stmt{SQL: r.sql.lock, Args: []any{key}, Dest: []any{new(int)}}
			return []*tx.Stmt{lock}
		},
		Work: func(ctx context.Context, t T) error {
			if locked && lock.Found {
				r.hold(ctx)
			}
			return tx.NoDiscard(fn(ctx, t))
		},
		Resolve: attemptOf(ctx).resolve,
	})
}

// hold notes in the transaction around ctx that it has locked a row.
func (r *Rows[T]) hold(ctx context.Context) {
	if scope := holdfast.LockScopeOf(ctx); scope != nil {
		scope.Hold(r.table.Name, r.o.Observer)
	}
}

// race is one attempt, with a lock where the row needs one. stop is why there was none: ctx ended before.
func (r *Rows[T]) race(ctx context.Context, p *place, key any, number int, try func(context.Context, bool) error) (err, stop error) {
	actx := numbered(ctx, number)
	if !r.locks() || number <= r.o.LockAfter && !p.hot() {
		return try(actx, false), nil
	}
	if number > r.o.LockAfter || p.inside.Load() > 1 { // it is still fought over
		p.mark()
	}
	leave, ended := p.queue(ctx)
	if ended != nil {
		return nil, ended
	}
	defer leave()
	r.observe(actx, EventFellOver, key, nil)
	return try(actx, true), nil
}

// locks reports whether rows can be locked at all.
func (r *Rows[T]) locks() bool {
	return r.db.Dialect().Capabilities.RowLocks && r.o.LockAfter >= 0
}

// pause waits before the next attempt, or returns why there is none. One that locks need not wait: the lock queues. A row that
// as many callers of this process fight over as one may lose races is hot.
func (r *Rows[T]) pause(ctx context.Context, p *place, number int) error {
	if number >= r.o.Attempts {
		return ErrAttempts
	}
	if r.locks() && int(p.inside.Load()) > r.o.LockAfter {
		p.mark()
	}
	if r.locks() && (number >= r.o.LockAfter || p.hot()) {
		return context.Cause(ctx)
	}
	timer := time.NewTimer(jitter.Full(time.Millisecond, 100*time.Millisecond, number))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}
