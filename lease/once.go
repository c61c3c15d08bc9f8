package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tx"
)

// errExited is what came of a run whose closure did not return. Its process may die of it, so that it counts as one that died.
var errExited = fmt.Errorf("the closure panicked or exited: %w", ErrAgain)

// Once runs fn for the slot of an instant, unless the slot is done, or a run of it goes on somewhere: then ran is false, and err nil.
// slot is the instant of the schedule, not when somebody came to it, so that all processes mean the same one.
//
// A run that returned an error is not followed by another: the slot has failed, and whoever asks for it gets a [*SlotError] until
// [Job.Reopen]. Wrap what another run may mend, such as a timeout, in [ErrAgain]. A run that died or panicked is followed by another,
// once its lease has run out, and so is one that was stopped: its context had ended when it returned its error, or the error is
// ErrAgain, a conflict with another transaction, or that of a database that could not be reached or written to. So what fn does outside the database is done at least once; what it does in a transaction with [Job.Finish] is
// done exactly once, and [Job.OnceTx] is short for that. The context of fn ends with ctx and with the lease, as in [Leases.Run].
//
// It returns the error of fn; a [*SlotError] if the slot lies in the future, is too old, has failed or is given up; an [*EndError] if
// another run may follow, though fn was through, or has followed since the lease was lost; [*InputError], and errors of the
// database. If fn was not called, ran is false.
func (j *Job[T]) Once(ctx context.Context, slot time.Time, fn func(ctx context.Context, s *Slot) error) (ran bool, err error) {
	if fn == nil {
		return false, &InputError{Name: "the closure", Reason: "is nil"}
	}
	s, err := j.begin(ctx, slot)
	if s == nil {
		return false, err
	}
	state, err := slotLeft, errExited // unless fn returns
	defer func() { err = j.finish(ctx, s, state, err) }()
	inside, cancel := context.WithCancelCause(s.enter(ctx))
	defer cancel(nil)
	stop := context.AfterFunc(s.Context(), func() { cancel(context.Cause(s.Context())) })
	defer stop()
	err = fn(inside, s)
	state = j.stateAfter(ctx, s, err)
	return true, err
}

// OnceTx is [Job.Once] for work in the database: fn runs in a transaction, whose commit ends the slot. However often a run dies or
// is repeated, one is committed. The transaction is that of [tx.DB.Do], which may call fn again. While it is open nobody else begins
// the slot, also if the lease runs out, so that the context of fn is ctx, and does not end with the lease.
//
// It returns the errors of [Job.Once] and of [tx.DB.Do]. An error of fn is the end of the slot as there. fn must not return
// [tx.ErrDiscard].
func (j *Job[T]) OnceTx(ctx context.Context, slot time.Time, fn func(ctx context.Context, t T) error) (ran bool, err error) {
	if fn == nil {
		return false, tx.ErrNilFunc
	}
	s, err := j.begin(ctx, slot)
	if s == nil {
		return false, err
	}
	state, err := slotLeft, errExited
	defer func() { err = j.finish(ctx, s, state, err) }()
	var fence []*tx.Stmt
	var failure error // of fn itself
	err = j.store.db.Run(s.enter(ctx), tx.Plan[T]{
		Lead: func() []*tx.Stmt {
			fence = j.fence(s)
			return fence
		},
		Work: func(ctx context.Context, t T) error {
			failure = nil
			if err := passed(s, fence); err != nil {
				return err
			}
			failure = tx.NoDiscard(fn(ctx, t))
			return failure
		},
		Resolve: func(ctx context.Context) (holdfast.Outcome, error) { return j.resolve(ctx, s) },
	})
	switch {
	case err == nil, errors.Is(err, tx.ErrCommitUnknown):
		state = "" // the commit has written it, if there was one
	case failure != nil: // otherwise it is the database that failed
		state = j.stateAfter(ctx, s, err)
	}
	return true, err
}

// Finish ends the slot s with the commit of t, a transaction on the database of the job, which may be the caller's own: a run in
// [Job.Once] calls it in its last transaction, and what that writes is committed once, however often runs die. Call it first, so
// that nobody else begins the slot while t is open, and return its error. It is one round trip.
//
// It returns a [*FencedError] if another run has followed, a [*SnapshotError] if t began before the run, and errors of the database;
// see [Fence.Guard].
func (j *Job[T]) Finish(ctx context.Context, t T, s *Slot) error {
	if s == nil || s.Job != j.name {
		return &InputError{Name: "the slot", Reason: "is not one of this job"}
	}
	fence := j.fence(s)
	if err := j.store.db.Tx(t).Batch(ctx, fence...); err != nil {
		return err
	}
	if !fence[0].Found {
		return s.fence.refused(ctx, j.store.db.Tx(t))
	}
	return passed(s, fence)
}

// fence keeps others from the lease, and then ends the slot.
func (j *Job[T]) fence(s *Slot) []*tx.Stmt {
	guard, _ := s.fence.statement(j.store.db.Dialect()) // the store has one
	return []*tx.Stmt{guard, {SQL: j.sql.end, Args: j.endArgs(s, slotDone, nil)}}
}

func passed(s *Slot, fence []*tx.Stmt) error {
	if !fence[0].Found || fence[1].Affected != 1 {
		return &FencedError{Fence: s.fence}
	}
	return nil
}

// resolve finds out what became of a transaction that ended s. It waits for the row, and for SQLite's one writer, so that
// transaction has ended.
func (j *Job[T]) resolve(ctx context.Context, s *Slot) (outcome holdfast.Outcome, err error) {
	db := j.store.db.With(tx.Options{Isolation: tx.ReadCommitted})
	err = db.Run(ctx, tx.Plan[T]{Work: func(ctx context.Context, t T) error {
		var state string
		err := db.Tx(t).QueryRow(ctx, j.sql.resolve, j.name, s.At.UnixMilli(), s.term.Nonce).Scan(&state)
		if err != nil && !errors.Is(err, tx.ErrNoRows) {
			return err
		}
		outcome = holdfast.NotApplied
		if state == slotDone {
			outcome = holdfast.Applied
		}
		return tx.ErrDiscard
	}})
	if err != nil {
		return holdfast.Unknown, err
	}
	return outcome, nil
}
