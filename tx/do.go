package tx

import (
	"context"
	"errors"
	"fmt"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/jitter"
)

// Events that a [DB] tells the observer given to [DB.Observed].
const (
	// EventRetried: a closure is about to run again in a fresh transaction. Err is why, Attempt the one that failed.
	EventRetried holdfast.EventKind = "tx.retried"
	// EventCommitUnknown: the reply to a commit was lost. Err is why.
	EventCommitUnknown holdfast.EventKind = "tx.commit_unknown"
	// EventCommitResolved: an unknown commit was resolved. Err is nil if it took effect.
	EventCommitResolved holdfast.EventKind = "tx.commit_resolved"
)

// Do runs fn in a transaction and commits it if fn returns nil. When the database could not serialize the transaction
// or broke a deadlock, Do rolls back, waits a moment and runs fn again, in a fresh transaction: fn must have no effect
// outside t that cannot be repeated ([Attempt] tells the number, [AfterCommit] takes what must happen once). A nil
// return of fn is a decision to commit: a cancellation of ctx after it does not undo it.
//
// A panic or runtime.Goexit in fn rolls back and goes on up. In a closure of a DB on the same pool, Do takes a savepoint instead
// and never runs fn again by itself. t is for one goroutine at a time and ends with fn.
//
// Do returns nil if the commit is proved, a [*CommitUnknownError] if its reply was lost and nothing could be found out,
// an [*EndedError] if fn ended the transaction by itself, and otherwise an [*AbortError], which wraps the error of fn
// or of the database and proves that nothing was applied.
func (db *DB[T]) Do(ctx context.Context, fn func(ctx context.Context, t T) error) error {
	if fn == nil {
		return db.Run(ctx, Plan[T]{})
	}
	return db.Run(ctx, Plan[T]{Work: func(ctx context.Context, t T) error { return NoDiscard(fn(ctx, t)) }})
}

// attempt runs p once in a transaction of its own. It returns what is to be called after the commit.
func (db *DB[T]) attempt(ctx context.Context, number int, p Plan[T]) (hooks []func(context.Context), err error) {
	if err := context.Cause(ctx); err != nil {
		return nil, db.abort(err, number)
	}
	var lead []*Stmt
	if p.Lead != nil {
		lead = p.Lead()
	}
	looks := []look{p.Resolve}
	if db.o.ResolveCommit && !db.o.ReadOnly && db.Dialect() == PostgreSQL {
		x := &xact{}
		lead = append(lead, x.lead())
		looks = append(looks, func(ctx context.Context) (holdfast.Outcome, error) { return db.status(ctx, x) })
	}
	t, err := db.driver.Begin(ctx, db.o, lead)
	if err != nil {
		aborted := db.abort(err, number)
		if aborted.Class == Lost {
			aborted.Class = Retryable // a connection that died in the pool; the closure has not run
		}
		return nil, aborted
	}
	s := &scope{driver: db.driver, t: t, attempt: number}
	err, ended := db.work(ctx, s, t, p.Work)
	switch {
	case ended != nil:
		return nil, ended
	case errors.Is(err, ErrDiscard):
		return nil, nil
	case err != nil:
		return nil, db.abort(cancelled(ctx, err), number)
	}
	if err := db.commit(ctx, s, t, looks); err != nil {
		return nil, err
	}
	db.o.RetryBudget.earn()
	return s.hooks, nil
}

// work calls fn and rolls back unless it returned nil, also when it panics or calls runtime.Goexit. ended is set if fn
// had ended the transaction by itself.
func (db *DB[T]) work(ctx context.Context, s *scope, t T, fn func(context.Context, T) error) (err, ended error) {
	returned := false
	defer func() {
		s.over = true
		s.locks.End()
		if returned && err == nil {
			return
		}
		if errors.Is(err, ErrDiscard) && db.Dialect().Capabilities.ConcurrentWriters {
			go func() { _ = db.rollback(ctx, t) }()
			return
		}
		rerr := db.rollback(ctx, t)
		explained := errors.Is(rerr, ErrTxAborted) && endsTransaction(err)
		if errors.Is(rerr, ErrEnded) && !explained {
			ended = &EndedError{Err: err}
		}
	}()
	err = fn(s.enter(ctx), t)
	if s.doomed != nil && !db.conflict(err) {
		// Whatever the closure made of it: it went on in a transaction that could no longer be completed.
		err = s.doom(err)
	}
	returned = true
	return err, nil
}

func (db *DB[T]) rollback(ctx context.Context, t T) error {
	ctx, cancel := db.detach(ctx)
	defer cancel()
	return db.driver.Rollback(ctx, t)
}

// commit ends the transaction with what was deferred. A nil return proves that it took effect.
func (db *DB[T]) commit(ctx context.Context, s *scope, t T, looks []look) error {
	cctx, cancel := db.detach(ctx)
	err := db.driver.Commit(cctx, t, s.deferred)
	cancel()
	var stated interface{ Outcome() holdfast.Outcome }
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrCommitUnknown):
		return db.resolve(ctx, s.attempt, err, looks)
	case errors.As(err, &stated):
		return err
	case errors.Is(err, ErrEnded):
		return &EndedError{}
	}
	return db.abort(err, s.attempt)
}

// A look finds out what became of a commit, as [Plan.Resolve] does.
type look func(context.Context) (holdfast.Outcome, error)

// resolve looks for what a commit without a reply left behind, in each way until one knows.
func (db *DB[T]) resolve(ctx context.Context, attempt int, unknown error, looks []look) error {
	holdfast.Observe(ctx, db.obs, holdfast.Event{Kind: EventCommitUnknown, Attempt: attempt, Err: unknown})
	var commitErr *CommitUnknownError
	if !errors.As(unknown, &commitErr) {
		commitErr = &CommitUnknownError{Err: unknown}
	}
	var failed error
	for _, look := range looks {
		if look == nil {
			continue
		}
		outcome, err := db.look(ctx, look)
		switch {
		case err != nil:
			failed = errors.Join(failed, err)
		case outcome == holdfast.Applied:
			holdfast.Observe(ctx, db.obs, holdfast.Event{Kind: EventCommitResolved, Attempt: attempt})
			return nil
		case outcome == holdfast.NotApplied:
			holdfast.Observe(ctx, db.obs, holdfast.Event{Kind: EventCommitResolved, Attempt: attempt, Err: unknown})
			return &AbortError{Err: commitErr.Err, Class: Retryable, Attempts: attempt}
		}
	}
	return &CommitUnknownError{Err: commitErr.Err, Resolve: failed}
}

func (db *DB[T]) look(ctx context.Context, look look) (holdfast.Outcome, error) {
	ctx, cancel := db.detach(ctx)
	defer cancel()
	return look(ctx)
}

func (db *DB[T]) detach(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), db.o.commitTimeout())
}

// cancelled adds why ctx has ended to what PostgreSQL says of a statement that was cancelled for it. Drivers for database/sql return
// the one or the other, whichever is faster.
func cancelled(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if cause == nil || sqlState(err) != "57014" || errors.Is(err, cause) { // query_canceled
		return err
	}
	return fmt.Errorf("%w: %w", cause, err)
}

func (db *DB[T]) abort(err error, attempt int) *AbortError {
	class := db.driver.Classify(err)
	if class == Retryable && !db.conflict(err) {
		class = Permanent
	}
	return &AbortError{Err: err, Class: class, Attempts: attempt}
}

// conflict reports whether only a fresh transaction can cure err. It does not for what another Do has used up its
// attempts on.
func (db *DB[T]) conflict(err error) bool {
	var inner *AbortError
	return db.driver.Classify(err) == Retryable && !errors.As(err, &inner)
}

// The pause before an attempt is random, up to a bound that doubles with each. The longest is also how long a turn is waited for.
const (
	shortestPause = 2 * time.Millisecond
	longestPause  = 500 * time.Millisecond
)

// pause returns nil when the closure may run again, after a wait, and otherwise the error to stop with. The bound of the wait
// begins with the time that the attempt took: callers who spread over less than a transaction meet again.
func (db *DB[T]) pause(ctx context.Context, attempt int, took time.Duration, err error) error {
	// Only the error of this very attempt says so: one inside another proves nothing of this transaction.
	aborted, ok := err.(*AbortError) //nolint:errorlint // see above
	if !ok || aborted.Class != Retryable {
		return err
	}
	if attempt >= db.o.attempts() {
		aborted.Stop = ErrAttempts
		return aborted
	}
	if !db.o.RetryBudget.take() {
		aborted.Stop = ErrBudget
		return aborted
	}
	holdfast.Observe(ctx, db.obs, holdfast.Event{Kind: EventRetried, Attempt: attempt, Err: aborted.Err})
	timer := time.NewTimer(jitter.Full(max(took, shortestPause), longestPause, attempt))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	if cause := context.Cause(ctx); cause != nil { // also when both were ready
		return stopped(aborted, cause)
	}
	return nil
}

// stopped returns the conflict that a closure was to run again for, with why it does not.
func stopped(conflict, why error) error {
	if aborted, ok := conflict.(*AbortError); ok { //nolint:errorlint // that of this very transaction
		aborted.Stop = why
	}
	return conflict
}
