package txtest

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/tx"
)

func hookRules[T any]() []rule[T] {
	return []rule[T]{
		{name: "after commit", rule: "Hooks run in order, once, after the commit is proved and before Do returns.", check: hooks[T]},
		{name: "after commit rollback", rule: "Hooks do not run when the transaction rolls back.", check: hooksOfRollback[T]},
		{name: "after commit savepoint", rule: "Hooks are dropped with their savepoint, and kept if it is released.", check: hooksOfSavepoint[T]},
		{name: "after commit retry", rule: "Hooks of an attempt that failed do not run.", check: hooksOfRetry[T]},
		{name: "after commit outside", rule: "Outside a closure AfterCommit is an error, and nothing falls back to running the hook.", check: hooksOutside[T]},
	}
}

func hooks[T any](f *fixture[T]) {
	var order []int
	f.must(f.DB.Do(f.ctx, func(ctx context.Context, t T) error {
		for i := range 3 {
			f.must(tx.AfterCommit(ctx, func(ctx context.Context) {
				order = append(order, i)
				if tx.Attempt(ctx) != 0 {
					f.Error("the hook's context is that of the closure")
				}
				f.wantBalance(1, 101)
			}))
		}
		return f.add(ctx, t, 1, 1)
	}))
	if len(order) != 3 || order[0] != 0 || order[1] != 1 || order[2] != 2 {
		f.Errorf("the hooks ran as %v, want 0, 1, 2", order)
	}
}

func (f *fixture[T]) failingHook(context.Context) {
	f.Error("a hook ran though its part of the transaction was not committed")
}

func hooksOfRollback[T any](f *fixture[T]) {
	f.wantAborted(f.DB.Do(f.ctx, func(ctx context.Context, _ T) error {
		f.must(tx.AfterCommit(ctx, f.failingHook))
		return errRefused
	}), errRefused)
	if !f.DB.Dialect().Capabilities.AbortsOnError {
		return
	}
	f.wantAborted(f.DB.Do(f.ctx, func(ctx context.Context, t T) error {
		f.must(tx.AfterCommit(ctx, f.failingHook))
		_, err := f.DB.Tx(t).Exec(ctx, "insert into account (id, balance) values (1, 0)")
		if err == nil {
			f.Error("a duplicate key was accepted")
		}
		return nil
	}), tx.ErrTxAborted)
}

func hooksOfSavepoint[T any](f *fixture[T]) {
	ran := 0
	count := func(context.Context) { ran++ }
	f.must(f.DB.Do(f.ctx, func(ctx context.Context, t T) error {
		f.must(tx.AfterCommit(ctx, count))
		f.must(f.DB.Nested(ctx, t, func(ctx context.Context, _ T) error { return tx.AfterCommit(ctx, count) }))
		_ = f.DB.Nested(ctx, t, func(ctx context.Context, t T) error {
			f.must(tx.AfterCommit(ctx, f.failingHook))
			f.must(f.DB.Nested(ctx, t, func(ctx context.Context, _ T) error { return tx.AfterCommit(ctx, f.failingHook) }))
			return errRefused
		})
		return tx.AfterCommit(ctx, count)
	}))
	if ran != 3 {
		f.Errorf("%d hooks ran, want 3", ran)
	}
}

func hooksOfRetry[T any](f *fixture[T]) {
	ran := 0
	f.must(f.DB.Do(f.ctx, func(ctx context.Context, t T) error {
		f.must(tx.AfterCommit(ctx, func(context.Context) { ran++ }))
		if tx.Attempt(ctx) < 3 {
			return f.conflict(ctx, t)
		}
		return nil
	}))
	if ran != 1 {
		f.Errorf("the hook ran %d times, want once", ran)
	}
}

func hooksOutside[T any](f *fixture[T]) {
	if err := tx.AfterCommit(f.ctx, f.failingHook); !errors.Is(err, tx.ErrNoTransaction) {
		f.Errorf("AfterCommit outside gives %v, want %v", err, tx.ErrNoTransaction)
	}
	f.must(f.DB.Do(f.ctx, func(ctx context.Context, _ T) error {
		if err := tx.AfterCommit(ctx, nil); err == nil {
			f.Error("a nil hook was accepted")
		}
		return nil
	}))
}
