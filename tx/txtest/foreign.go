package txtest

import (
	"context"
	"errors"
	"runtime"

	"github.com/holdfast-go/holdfast/tx"
)

func foreignRules[T any]() []rule[T] {
	return []rule[T]{
		{name: "foreign", rule: "Statements run in a transaction that the caller began, and are applied only when the caller commits.", check: foreign[T]},
		{name: "foreign savepoint", rule: "Nested works in a transaction that the caller began, and leaves it usable.", check: foreignNested[T]},
		{name: "foreign conflict", rule: "In a transaction that the caller began nothing is tried again, and the conflict comes back.", check: foreignConflict[T]},
		{
			name: "foreign must affect", rule: "A fence that matches nothing gives its own error in a transaction that the caller began.",
			check: foreignFence[T],
		},
		{name: "foreign beside", rule: "Do beside a transaction that the caller began is a transaction of its own.", check: foreignBeside[T], needs: concurrentWriters},
	}
}

func (f *fixture[T]) foreign(fn func(t T), end func(context.Context, T) error) {
	f.Helper()
	t := f.begin()
	fn(t)
	f.must(end(f.ctx, t))
	f.wantIdlePool()
}

func foreign[T any](f *fixture[T]) {
	work := func(t T) {
		f.must(f.add(f.ctx, t, 1, 1))
		balance := int64(0)
		f.must(f.DB.Tx(t).Batch(f.ctx,
			&tx.Stmt{SQL: addSQL, Args: []any{1, 1}},
			&tx.Stmt{SQL: balanceSQL, Args: []any{1}, Dest: []any{&balance}},
			&tx.Stmt{SQL: fenceSQL, Args: []any{1}, MustAffect: errFence}))
		if balance != 102 {
			f.Errorf("the batch read %d, want 102", balance)
		}
	}
	f.foreign(work, f.Rollback)
	f.wantBalance(1, 100)
	f.foreign(work, f.Commit)
	f.wantBalance(1, 103)
}

func foreignNested[T any](f *fixture[T]) {
	f.foreign(func(t T) {
		f.must(f.DB.Nested(f.ctx, t, func(ctx context.Context, t T) error { return f.add(ctx, t, 1, 1) }))
		err := f.DB.Nested(f.ctx, t, func(ctx context.Context, t T) error {
			f.must(f.add(ctx, t, 1, 10))
			_, err := f.DB.Tx(t).Exec(ctx, "insert into account (id, balance) values (1, 0)")
			return err
		})
		if _, ok := tx.UniqueViolation(err); !ok {
			f.Errorf("the nested closure gives %v, want a unique violation", err)
		}
		if _, returned := protect(func() {
			_ = f.DB.Nested(f.ctx, t, func(ctx context.Context, t T) error {
				f.check(f.add(ctx, t, 1, 100))
				runtime.Goexit()
				return nil
			})
		}); returned {
			f.Error("Nested returned, want the end of the goroutine to go on up")
		}
		f.must(f.add(f.ctx, t, 2, 1))
	}, f.Commit)
	f.wantBalance(1, 101)
	f.wantBalance(2, 101)
}

func foreignConflict[T any](f *fixture[T]) {
	f.foreign(func(t T) {
		f.must(f.add(f.ctx, t, 1, 1))
		runs := 0
		err := f.DB.Nested(f.ctx, t, func(ctx context.Context, t T) error {
			runs++
			return f.conflict(ctx, t)
		})
		if runs != 1 || f.DB.Classify(err) != tx.Retryable {
			f.Errorf("the closure ran %d times and gives %v, want once and the conflict", runs, err)
		}
	}, f.Rollback)
	f.wantBalance(1, 100)
}

func foreignFence[T any](f *fixture[T]) {
	f.foreign(func(t T) {
		err := f.DB.Tx(t).Batch(f.ctx, &tx.Stmt{SQL: fenceSQL, Args: []any{3}, MustAffect: errFence})
		if !errors.Is(err, errFence) {
			f.Errorf("the batch gives %v, want %v", err, errFence)
		}
	}, f.Rollback)
}

func foreignBeside[T any](f *fixture[T]) {
	f.foreign(func(t T) {
		f.must(f.add(f.ctx, t, 1, 1))
		f.must(f.DB.Do(f.ctx, func(ctx context.Context, t T) error { return f.add(ctx, t, 2, 1) }))
	}, f.Rollback)
	f.wantBalance(1, 100)
	f.wantBalance(2, 101)
}
