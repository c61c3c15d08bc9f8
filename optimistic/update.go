package optimistic

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync/atomic"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/jitter"
	"github.com/holdfast-go/holdfast/tx"
)

// lookTimeout bounds the look for a token after a reply was lost.
const lookTimeout = 5 * time.Second

// hotFor is for how long a row counts as hot after somebody had to lock it.
const hotFor = 200 * time.Millisecond

// queueTimeout bounds the wait for other callers in this process.
const queueTimeout = time.Second

type attemptKey struct{}

// Attempt returns which attempt of [Rows.Update] the closure is in, from 1, or 0 outside one. [tx.Attempt] counts anew in
// each of them.
func Attempt(ctx context.Context) int {
	n, _ := ctx.Value(attemptKey{}).(int)
	return n
}

// Update runs fn, which reads the row of key, decides, and writes with the version that it read, in a transaction of its own,
// and again in a fresh one when a race was lost: when fn returns an error that matches [ErrConflict]. fn must read the row
// each time, and must have no effect outside t that cannot be repeated: an e-mail or a charge in it happens in each attempt
// (see [Attempt]); what has to happen once belongs into the transaction or into [tx.AfterCommit].
//
// Between attempts it waits with full jitter. After Options.LockAfter losses, and while the row is known to be hot, it locks
// the row before fn reads, where the database has row locks: writers then queue up instead of undoing each other's work. The
// lock is noted in the lock scope of fn's context, so that [holdfast.ExternalCall] refuses meanwhile.
//
// In a closure of a DB on the same pool, fn runs once, in a savepoint, and a conflict is the error: to read again in the same
// transaction could find the same forever.
//
// It returns nil if the commit is proved, a [*ContendedError] when it gave up, the conflict itself if fn came with the same
// version again, since it has it from outside and not from the row, and other errors of fn and of the database as [tx.DB.Do] does.
func (r *Rows[T]) Update(ctx context.Context, key any, fn func(ctx context.Context, t T) error) error {
	if err := r.ready(Want{Key: key}); err != nil {
		return err
	}
	if fn == nil {
		return invalid("the closure is nil")
	}
	if _, joins := r.db.Current(ctx); joins {
		return r.try(ctx, key, 1, false, fn)
	}
	p := r.heat.of(key)
	p.inside.Add(1)
	defer p.inside.Add(-1)
	var before *ConflictError
	for attempt := 1; ; attempt++ {
		err := r.race(ctx, p, key, attempt, fn)
		var conflict *ConflictError
		if !errors.Is(err, ErrConflict) || holdfast.OutcomeOf(err) != holdfast.NotApplied {
			return err
		}
		if errors.As(err, &conflict) {
			if before != nil && fmt.Sprint(before.Key) == fmt.Sprint(conflict.Key) && before.Expected == conflict.Expected {
				return err
			}
			before = conflict
		}
		if stop := r.pause(ctx, p, attempt); stop != nil {
			gaveUp := &ContendedError{Attempts: attempt, Stop: stop, Last: err}
			r.observe(context.WithValue(ctx, attemptKey{}, attempt), EventContended, key, gaveUp)
			return gaveUp
		}
	}
}

// try runs fn once, but for what the transaction itself runs again.
func (r *Rows[T]) try(ctx context.Context, key any, attempt int, locked bool, fn func(context.Context, T) error) error {
	ctx = context.WithValue(ctx, attemptKey{}, attempt)
	plan := tx.Plan[T]{Work: func(ctx context.Context, t T) error { return tx.NoDiscard(fn(ctx, t)) }}
	if locked {
		r.observe(ctx, EventFellOver, key, nil)
		var lock *tx.Stmt
		plan.Lead = func() []*tx.Stmt {
			lock = &tx.Stmt{SQL: r.sql.lock, Args: []any{key}, Dest: []any{new(int)}}
			return []*tx.Stmt{lock}
		}
		plan.Work = func(ctx context.Context, t T) error {
			if scope := holdfast.LockScopeOf(ctx); scope != nil && lock.Found {
				scope.Hold(r.table.Name, r.o.Observer)
			}
			return tx.NoDiscard(fn(ctx, t))
		}
	}
	return r.db.Run(ctx, plan)
}

// race is one attempt, with a lock where the row needs one.
func (r *Rows[T]) race(ctx context.Context, p *place, key any, attempt int, fn func(context.Context, T) error) error {
	if !r.locks() || attempt <= r.o.LockAfter && !p.hot() {
		return r.try(ctx, key, attempt, false, fn)
	}
	if attempt > r.o.LockAfter || p.inside.Load() > 1 { // it is still fought over
		p.mark()
	}
	defer p.queue(ctx)()
	return r.try(ctx, key, attempt, true, fn)
}

// locks reports whether rows can be locked at all.
func (r *Rows[T]) locks() bool {
	return r.db.Dialect().Capabilities.RowLocks && r.o.LockAfter >= 0
}

// pause waits before the next attempt, or returns why there is none. One that locks need not wait: the lock queues. A row that
// as many callers of this process fight over as one may lose races is hot.
func (r *Rows[T]) pause(ctx context.Context, p *place, attempt int) error {
	if attempt >= r.o.Attempts {
		return ErrAttempts
	}
	if r.locks() && int(p.inside.Load()) > r.o.LockAfter {
		p.mark()
	}
	if r.locks() && (attempt >= r.o.LockAfter || p.hot()) {
		return context.Cause(ctx)
	}
	timer := time.NewTimer(jitter.Full(time.Millisecond, 100*time.Millisecond, attempt))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}

// heat remembers which rows were fought over of late, so that the next one does not have to find out. Two rows may share a
// place: that costs one a lock that it did not need.
type heat struct{ places [256]place }

// A place is what this process knows of a row.
type place struct {
	until  atomic.Int64 // hot until then
	inside atomic.Int32 // how many Updates are under way
	turn   atomic.Pointer[chan struct{}]
}

var seed = maphash.MakeSeed()

var started = time.Now()

func (h *heat) of(key any) *place {
	return &h.places[maphash.String(seed, fmt.Sprint(key))%uint64(len(h.places))]
}

func (p *place) mark() { p.until.Store(int64(time.Since(started) + hotFor)) }

func (p *place) hot() bool { return int64(time.Since(started)) < p.until.Load() }

// queue waits for the turn of a caller in this process, so that one connection at a time waits for the row and not all of the
// pool. It is no lock: who has waited for long goes on without it, and the row lock decides.
func (p *place) queue(ctx context.Context) (leave func()) {
	turn := p.turn.Load()
	if turn == nil {
		fresh := make(chan struct{}, 1)
		p.turn.CompareAndSwap(nil, &fresh)
		turn = p.turn.Load()
	}
	timer := time.NewTimer(queueTimeout)
	defer timer.Stop()
	select {
	case *turn <- struct{}{}:
		return func() { <-*turn }
	case <-timer.C:
	case <-ctx.Done():
	}
	return func() {}
}
