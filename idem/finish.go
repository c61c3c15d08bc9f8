package idem

import (
	"context"
	"errors"
	"fmt"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tx"
)

// Finish runs fn in a business transaction that stores what fn returns as the answer of the key, with its commit: both are there,
// or neither. It is the last thing that the closure of [DoLeased] does; the result of that is the answer, whatever the closure
// returns. It begins the transaction, and runs fn again after a conflict, as [tx.DB.Do] does.
//
// The key cannot be taken over while the transaction is open. Where it has been before, fn does not run, and where it is after all,
// the commit does not happen: the error matches [ErrLeaseLost], and what fn wrote is undone. A [*Failure] to be stored is the answer,
// and the writes of fn are undone, as in [Do]. After any other error the key has no answer, and the closure may go on.
//
// On pgx it costs no round trip more than the transaction of fn would by itself. It also returns [*UnknownError] if a step is
// unknown, [*StepError] if it is called twice, [ErrInTransaction], [ErrResult], [ErrOutcomeUnknown] and the errors of [tx.DB.Do].
func Finish[T, R any](ctx context.Context, run *RunTx[T], fn func(ctx context.Context, t T) (R, error)) (R, error) {
	var value R
	if fn == nil {
		return value, tx.ErrNilFunc
	}
	err := run.finish(ctx, encoding(fn, &value), func() any { return value })
	if err != nil {
		var none R
		return none, err
	}
	return value, nil
}

func (r *RunTx[T]) finish(ctx context.Context, fn work[T], value func() any) error {
	if err := r.mayFinish(ctx); err != nil {
		return err
	}
	db := r.store.keys.db
	var e entry
	var failure error
	var guard *tx.Stmt
	r.l.renewer.Remove(r.Run) // it would only find the key locked
	err := db.Run(ctx, tx.Plan[T]{
		Lead: func() []*tx.Stmt {
			guard = r.guard()
			return []*tx.Stmt{guard, {SQL: tx.SetSavepoint}}
		},
		Work: func(ctx context.Context, t T) error {
			if err := r.guarded(guard); err != nil {
				return err
			}
			r.seal()
			drop := db.Mark(ctx, t)
			var err error
			e, err = fn(ctx, t)
			if r.store.keys.conflict(err) {
				return err
			}
			if e, failure, err = r.l.entryOf(ctx, r.c, r.c.row.fp, e, err); err != nil {
				return err
			}
			complete := r.store.finish(r.Run, e)
			if failure == nil {
				return db.Defer(ctx, t, complete)
			}
			drop()
			return db.Defer(ctx, t, &tx.Stmt{SQL: tx.BackToSavepoint}, complete)
		},
		Resolve: r.resolve,
	})
	switch {
	case err == nil:
		r.finished, r.failed, r.value = &e, failure, value()
		return failure
	case errors.Is(err, errTaken):
		err = &tx.AbortError{Err: r.lose(TakenOver, nil), Class: tx.Permanent, Attempts: 1}
	case commitUnknown(err):
		r.doubt = fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
		return r.doubt
	}
	r.unseal()
	return err
}

// mayFinish refuses what would be undone or must not be done.
func (r *Run) mayFinish(ctx context.Context) error {
	if r.finished != nil {
		return &StepError{Step: "Finish", Reason: "was called already: it stores the answer"}
	}
	if r.doubt != nil {
		return r.doubt
	}
	if holdfast.LockScopeOf(ctx) != nil {
		return ErrInTransaction
	}
	if name := r.steps.unsettled(); name != "" {
		return r.unsure(external{name: name}, r.steps.failure)
	}
	return r.Check()
}

// errTaken: the answer could not be stored, since the execution is not that of the key any more.
var errTaken = errors.New("idem: the key was taken over")

// finish returns the statement that stores the answer, and fails the commit if it is too late.
func (s *sqlStore[T]) finish(r *Run, e entry) *tx.Stmt {
	return &tx.Stmt{SQL: s.sql.finish, Args: s.answer(r.term, e.answer(), r.l.o.TTL), MustAffect: errTaken}
}

// resolve finds out what became of a commit whose reply was lost. The guard has locked the key until that transaction ended, so it
// waits for the lock, and then sees what is.
func (r *RunTx[T]) resolve(ctx context.Context) (holdfast.Outcome, error) {
	var state int
	var nonce int64
	err := r.store.keys.db.Conn().QueryRow(ctx, r.store.sql.settled, r.term.ID[:]).Scan(&state, &nonce)
	switch {
	case errors.Is(err, tx.ErrNoRows):
		return holdfast.Unknown, nil // it had an answer, which was removed since
	case err != nil:
		return holdfast.Unknown, err
	case nonce == r.term.Nonce && (state == stateCompleted || state == stateFailed):
		return holdfast.Applied, nil
	}
	return holdfast.NotApplied, nil
}
