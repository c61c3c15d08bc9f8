package optimistic

import (
	"context"
	"errors"
	"maps"
	"slices"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tx"
)

// Edit reads columns of a row into the destinations of read, such as {"size": &size}, calls decide, and writes the columns that it
// returns, all in one transaction; after a lost race again in a fresh one, as [Rows.Update] does, with its waits, its fall-over
// to a row lock, and the same care about effects outside t. On pgx the read rides with BEGIN and the write with COMMIT: an edit takes
// two round trips, and two more for each race that it lost; the lock of a hot row is held for as long as decide and the commit
// take.
//
//	var size int64
//	v, err := docs.Edit(ctx, optimistic.Want{Key: id}, map[string]any{"size": &size}, func(ctx context.Context, t pgx.Tx) (map[string]any, error) {
//		return map[string]any{"size": size + 1}, nil
//	})
//
// Statements of decide in t are of the same transaction. They see the row as it was. Without columns to write, the row and its
// version are left as they are. The destinations hold what was read last, also after an error.
//
// w needs no version, since the row's own is read with it. With one, that of an If-Match for instance, the edit is for that
// version alone: another is a conflict at once, and not tried again. With a token, a retry of what was applied does not call
// decide, and a commit whose reply was lost is found out about by the row.
//
// In a closure of a DB on the same pool it runs once, in a savepoint, and writes at once.
//
// It returns the version that the row has now, and otherwise a [*ContendedError], a [*ConflictError], [ErrNotFound],
// [ErrInvalid], a [tx.CommitUnknownError], and errors of decide and of the database as [tx.DB.Do] does.
func (r *Rows[T]) Edit(ctx context.Context, w Want, read map[string]any, decide func(ctx context.Context, t T) (set map[string]any, err error)) (Version, error) {
	if err := r.editable(w, read); err != nil {
		return Version{}, err
	}
	if decide == nil {
		return Version{}, invalid("the closure is nil")
	}
	e := &edit[T]{Rows: r, want: w, decide: decide}
	for _, column := range slices.Sorted(maps.Keys(read)) {
		e.from, e.dest = append(e.from, column), append(e.dest, read[column])
	}
	var err error
	if w.Version.IsSet() {
		err = r.once(ctx, e.try)
	} else {
		err = r.persist(ctx, w.Key, e.try)
	}
	if err != nil {
		return Version{}, err
	}
	return e.now, nil
}

func (r *Rows[T]) editable(w Want, read map[string]any) error {
	if err := r.ready(w); err != nil {
		return err
	}
	if w.Version == Any() {
		return invalid("an edit does not overwrite: leave Want.Version unset, and it is for the version that it reads")
	}
	for column := range read {
		if err := tx.CheckName(column, 63); err != nil {
			return invalid("a column to read: %v", err)
		}
	}
	return nil
}

// An edit is one call of Edit.
type edit[T any] struct {
	*Rows[T]

	want   Want
	from   []string // columns, and where they go
	dest   []any
	decide func(context.Context, T) (map[string]any, error)
	now    Version // of the row, if the edit is done
}

// errOutrun: the row was no longer as the edit had read it.
var errOutrun = errors.New("optimistic: the row has changed since it was read")

// try runs the edit once, but for what the transaction itself runs again.
func (e *edit[T]) try(ctx context.Context, locked bool) error {
	var row *tx.Stmt
	var n int64
	var token string
	var w Want
	read := false
	err := e.db.Run(ctx, tx.Plan[T]{
		Lead: func() []*tx.Stmt {
			row = &tx.Stmt{SQL: e.sql.read(e.from, locked), Args: []any{e.want.Key}, Dest: append([]any{&n, &token}, e.dest...)}
			return []*tx.Stmt{row}
		},
		Work: func(ctx context.Context, t T) error {
			if read = true; !row.Found {
				return ErrNotFound
			}
			if locked {
				e.hold(ctx)
			}
			w, e.now = e.want, At(n)
			if !w.Version.IsSet() {
				w.Version = e.now
			}
			if mine := w.Token != "" && token == w.Token; mine || w.Version != e.now {
				if _, err := e.judge(ctx, w, e.now, token); err != nil {
					return err
				}
				return tx.ErrDiscard
			}
			return e.write(ctx, t, w)
		},
		Resolve: func(ctx context.Context) (holdfast.Outcome, error) {
			mine, _, err := e.mine(ctx, w)
			if mine {
				return holdfast.Applied, nil
			}
			return holdfast.Unknown, err
		},
	})
	switch {
	case errors.Is(err, errOutrun):
		return e.outrun(ctx, w)
	case !read: // what comes later may be of the caller's own statements
		return explain(err)
	}
	return err
}

// outrun finds out what became of the row. The transaction is rolled back.
func (e *edit[T]) outrun(ctx context.Context, w Want) (err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookTimeout)
	defer cancel()
	if e.now, err = e.lost(ctx, e.db.Conn(), w); err != nil && !ours(err) {
		return &tx.AbortError{Err: err, Class: e.db.Classify(err), Attempts: 1}
	}
	return err
}

// write decides and leaves the write to the commit. In a transaction around the edit, whose statements may look for it, it writes
// at once.
func (e *edit[T]) write(ctx context.Context, t T, w Want) error {
	set, err := e.decide(ctx, t)
	if err != nil || len(set) == 0 {
		return tx.NoDiscard(err)
	}
	if err := e.columns(set); err != nil {
		return err
	}
	if attemptOf(ctx).joined {
		e.now, err = e.SetTx(ctx, t, w, set)
		return err
	}
	e.now = w.Version.next()
	return e.db.Defer(ctx, t, e.fence(w, set, errOutrun))
}
