package optimistic

import (
	"context"
	"errors"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tx"
)

// SetAtCommit is [Rows.SetTx] for the last write of a closure: the statement waits for the end of the transaction and rides with
// COMMIT, which on pgx saves a round trip, and the row is locked for the time of the commit alone. It returns the version that
// the row then has, the one of w plus 1, and unset for [Any].
//
// Nothing is written before the closure returns nil, and what it reads meanwhile is the row as it was. A refusal is the error of
// [tx.DB.Do] or of [Rows.Update], which runs the closure again after a conflict, and nothing of the transaction is applied: a
// [*ConflictError], [ErrNotFound] or [ErrUnmatched], around which there is no AbortError. A savepoint that is undone takes its
// writes with it. In a transaction that no DB on this pool began, and in one that is not that of the closure around ctx, the write
// is made at once, and is refused as SetTx refuses it.
//
// With a token, Update finds out by the row what became of a commit whose reply was lost. A retry of what was applied undoes
// the rest of its transaction, which the first has done too: Update then returns nil, and Do [ErrApplied].
//
// It returns what is wrong with its arguments as SetTx does. A row that somebody else keeps locked for longer than
// [tx.Options].CommitTimeout makes the outcome of the commit unknown.
func (r *Rows[T]) SetAtCommit(ctx context.Context, t T, w Want, set map[string]any) (Version, error) {
	if current, ok := r.db.Current(ctx); !ok || any(current) != any(t) {
		return r.SetTx(ctx, t, w, set)
	}
	if err := r.writable(w, set); err != nil {
		return Version{}, err
	}
	var n int64
	var token string
	refused := &refusal{ErrNotFound}
	look := &tx.Stmt{SQL: r.sql.lockedLook, Args: []any{w.Key}, Dest: []any{&n, &token}, Each: func() error {
		if _, refused.err = r.judge(ctx, w, At(n), token); refused.err == nil {
			refused.err = ErrApplied
		}
		return nil
	}}
	if err := r.db.Defer(ctx, t, look, r.fence(w, set, refused)); err != nil {
		return Version{}, err
	}
	r.mark(ctx, w)
	return w.Version.next(), nil
}

// A refusal is the error of a write that rides with COMMIT, if it matches no row. What it says is found out before, by a look at the
// row under the lock that the write would take anyhow, in the same round trip.
type refusal struct{ err error }

func (e *refusal) Error() string { return e.err.Error() }

func (e *refusal) Unwrap() error { return e.err }

// fence is the write of w as a statement without which the transaction does not commit.
func (r *Rows[T]) fence(w Want, set map[string]any, refused error) *tx.Stmt {
	query, args := r.sql.update(w, set, "1")
	return &tx.Stmt{SQL: query, Args: args, MustAffect: refused}
}

// A mark is a write with a token in the transaction of an attempt: the row tells whether that was committed.
type mark func(context.Context) (bool, error)

func (r *Rows[T]) mark(ctx context.Context, w Want) {
	if a := attemptOf(ctx); a != nil && w.Token != "" {
		a.marks = append(a.marks, func(ctx context.Context) (bool, error) {
			mine, _, err := r.mine(ctx, w)
			return mine, err
		})
	}
}

// resolve looks for a mark after the reply to the commit was lost. That there is none proves nothing: the server may come to the
// statements later.
func (a *attempt) resolve(ctx context.Context) (holdfast.Outcome, error) {
	var failed error
	for _, look := range a.marks {
		mine, err := look(ctx)
		if mine {
			return holdfast.Applied, nil
		}
		failed = errors.Join(failed, err)
	}
	return holdfast.Unknown, failed
}
