package txtest

import (
	"context"

	"github.com/holdfast-go/holdfast/tx"
)

func deferredRules[T any]() []rule[T] {
	return []rule[T]{
		{name: "deferred", rule: "Deferred statements run in order with COMMIT, and the closure does not see them.", check: defers[T]},
		{name: "deferred fails", rule: "The error of a deferred statement surfaces at the commit, and nothing is applied.", check: deferredFails[T], conns: 1},
		{
			name: "deferred savepoint", rule: "Deferred statements are dropped with their savepoint, and kept if it is released.",
			check: deferredDropped[T],
		},
		{
			name: "deferred rollback", rule: "Deferred statements do not run when the closure fails, and do not pile up over attempts.",
			check: deferredOnce[T],
		},
		{
			name: "deferred foreign", rule: "In a transaction that the caller began, a deferred statement runs at once.",
			check: deferredForeign[T],
		},
	}
}

func set(id, balance int) *tx.Stmt {
	return &tx.Stmt{SQL: "update account set balance = $2 where id = $1", Args: []any{id, balance}}
}

func defers[T any](f *fixture[T]) {
	var last int64
	f.must(f.DB.Do(f.ctx, func(ctx context.Context, t T) error {
		f.must(f.DB.Defer(ctx, t, set(1, 1), &tx.Stmt{SQL: addSQL, Args: []any{1, 5}}))
		f.must(f.DB.Defer(ctx, t, &tx.Stmt{SQL: balanceSQL, Args: []any{1}, Dest: []any{&last}}))
		if got, err := f.balance(ctx, t, 1); got != 100 || err != nil {
			f.Errorf("the closure reads %d, %v, want 100, without what is deferred", got, err)
		}
		return f.add(ctx, t, 1, 10)
	}))
	if last != 6 {
		f.Errorf("the last deferred statement read %d, want 6", last)
	}
	f.wantBalance(1, 6)
}

func deferredFails[T any](f *fixture[T]) {
	err := f.DB.Do(f.ctx, func(ctx context.Context, t T) error {
		f.must(tx.AfterCommit(ctx, func(context.Context) { f.Error("a hook ran though nothing was committed") }))
		f.must(f.add(ctx, t, 2, 1))
		return f.DB.Defer(ctx, t, set(2, 0), &tx.Stmt{SQL: "insert into account (id, balance) values (1, 0)"}, set(2, 7))
	})
	if aborted := f.wantAborted(err, nil); aborted.Class != tx.Unique {
		f.Errorf("the class of %v is %v, want %v", err, aborted.Class, tx.Unique)
	}
	f.wantBalance(2, 100)
}

func deferredDropped[T any](f *fixture[T]) {
	f.must(f.DB.Do(f.ctx, func(ctx context.Context, t T) error {
		f.must(f.DB.Defer(ctx, t, &tx.Stmt{SQL: addSQL, Args: []any{1, 1}}))
		for _, then := range []error{nil, errRefused} {
			amount := 10
			if then != nil {
				amount = 100
			}
			_ = f.DB.Nested(ctx, t, func(ctx context.Context, t T) error {
				f.must(f.DB.Defer(ctx, t, &tx.Stmt{SQL: addSQL, Args: []any{1, amount}}))
				return then
			})
		}
		return nil
	}))
	f.wantBalance(1, 111)
}

func deferredOnce[T any](f *fixture[T]) {
	f.wantAborted(f.DB.Do(f.ctx, func(ctx context.Context, t T) error {
		f.must(f.DB.Defer(ctx, t, set(1, 0)))
		return errRefused
	}), errRefused)
	f.wantBalance(1, 100)
	f.must(f.DB.Do(f.ctx, func(ctx context.Context, t T) error {
		f.must(f.DB.Defer(ctx, t, &tx.Stmt{SQL: addSQL, Args: []any{1, 1}}))
		if tx.Attempt(ctx) < 3 {
			return f.conflict(ctx, t)
		}
		return nil
	}))
	f.wantBalance(1, 101)
}

func deferredForeign[T any](f *fixture[T]) {
	t := f.begin()
	f.must(f.DB.Defer(f.ctx, t, set(1, 7)))
	if got, err := f.balance(f.ctx, t, 1); got != 7 || err != nil {
		f.Errorf("the caller reads %d, %v, want 7", got, err)
	}
	f.must(f.Commit(f.ctx, t))
	f.wantBalance(1, 7)
}
