package txtest

import (
	"context"
	"errors"
	"runtime"

	"github.com/holdfast-go/holdfast/tx"
)

func nestedRules[T any]() []rule[T] {
	return []rule[T]{
		{name: "savepoint", rule: "A nested closure that fails is undone alone, at any depth.", check: nestedUndone[T]},
		{name: "savepoint kept", rule: "A nested closure that succeeds is applied with the outer one, and undone with it.", check: nestedKept[T]},
		{name: "savepoint panic", rule: "A panic or Goexit in a nested closure undoes its savepoint and goes on up.", check: nestedPanic[T]},
		{
			name: "savepoint cures", rule: "An error inside a savepoint leaves the outer transaction usable.",
			check: nestedCures[T],
		},
		{
			name: "savepoint refused", rule: "A nested closure in a transaction that is aborted does not begin, and does not return to an outer savepoint.",
			needs: abortsOnError, check: nestedInAborted[T],
		},
		{
			name: "do joins", rule: "Do inside a closure of the same DB joins it by a savepoint, also with a pool of one.",
			check: doJoins[T], conns: 1,
		},
		{
			name: "twin joins", rule: "Do of another DB of the same pool joins as well, and shares what is deferred and hooked.",
			check: twinJoins[T], conns: 1,
		},
		{
			name: "nested conflict", rule: "An error that only a fresh transaction cures restarts the outermost closure, whatever the nested caller makes of it.",
			check: nestedConflict[T],
		},
		{
			name: "inner never retries", rule: "A joined Do never runs its closure again by itself.",
			check: innerNeverRetries[T],
		},
	}
}

func nestedUndone[T any](f *fixture[T]) {
	f.must(f.DB.Do(f.ctx, func(ctx context.Context, t T) error {
		f.must(f.add(ctx, t, 1, 1))
		f.must(f.DB.Nested(ctx, t, func(ctx context.Context, t T) error {
			f.must(f.add(ctx, t, 1, 10))
			err := f.DB.Nested(ctx, t, func(ctx context.Context, t T) error {
				f.must(f.add(ctx, t, 1, 100))
				return errRefused
			})
			if !errors.Is(err, errRefused) {
				f.Errorf("the inner closure gives %v, want %v", err, errRefused)
			}
			return nil
		}))
		if err := f.DB.Nested(ctx, t, func(ctx context.Context, t T) error {
			f.must(f.add(ctx, t, 1, 1000))
			return errRefused
		}); !errors.Is(err, errRefused) {
			f.Errorf("the second closure gives %v, want %v", err, errRefused)
		}
		return nil
	}))
	f.wantBalance(1, 111)
}

func nestedKept[T any](f *fixture[T]) {
	f.wantAborted(f.DB.Do(f.ctx, func(ctx context.Context, t T) error {
		f.must(f.DB.Nested(ctx, t, func(ctx context.Context, t T) error { return f.add(ctx, t, 1, 1) }))
		if got, err := f.balance(ctx, t, 1); got != 101 || err != nil {
			f.Errorf("the outer closure reads %d, %v, want the nested write, 101", got, err)
		}
		return errRefused
	}), errRefused)
	f.wantBalance(1, 100)
}

func nestedPanic[T any](f *fixture[T]) {
	for _, leave := range []func(){func() { panic(errRefused) }, runtime.Goexit} {
		f.must(f.DB.Do(f.ctx, func(ctx context.Context, t T) error {
			if _, returned := protect(func() {
				_ = f.DB.Nested(ctx, t, func(ctx context.Context, t T) error {
					f.check(f.add(ctx, t, 1, 10))
					leave()
					return nil
				})
			}); returned {
				f.Error("Nested returned, want the panic or the end of the goroutine to go on up")
			}
			return f.add(ctx, t, 2, 1)
		}))
	}
	f.wantBalance(1, 100)
	f.wantBalance(2, 102)
}

func nestedCures[T any](f *fixture[T]) {
	f.must(f.DB.Do(f.ctx, func(ctx context.Context, t T) error {
		err := f.DB.Nested(ctx, t, func(ctx context.Context, t T) error {
			_, err := f.DB.Tx(t).Exec(ctx, "insert into account (id, balance) values (1, 0)")
			return err
		})
		if _, ok := tx.UniqueViolation(err); !ok {
			f.Errorf("the nested closure gives %v, want a unique violation", err)
		}
		return f.add(ctx, t, 1, 1)
	}))
	f.wantBalance(1, 101)
}

func nestedInAborted[T any](f *fixture[T]) {
	f.must(f.DB.Do(f.ctx, func(ctx context.Context, t T) error {
		err := f.DB.Nested(ctx, t, func(ctx context.Context, t T) error {
			_, _ = f.DB.Tx(t).Exec(ctx, "insert into account (id, balance) values (1, 0)")
			if err := f.DB.Nested(ctx, t, func(context.Context, T) error {
				f.Error("the closure ran")
				return nil
			}); err == nil {
				f.Error("a savepoint was set in an aborted transaction")
			}
			return f.add(ctx, t, 1, 1)
		})
		if err == nil {
			f.Error("the outer savepoint was returned to, and its closure went on")
		}
		return nil
	}))
	f.wantBalance(1, 100)
}

func doJoins[T any](f *fixture[T]) {
	f.must(f.DB.Do(f.ctx, func(ctx context.Context, t T) error {
		f.must(f.add(ctx, t, 1, 1))
		f.must(f.DB.Do(ctx, func(ctx context.Context, t T) error { return f.add(ctx, t, 1, 10) }))
		if err := f.DB.Do(ctx, func(ctx context.Context, t T) error {
			f.must(f.add(ctx, t, 1, 100))
			return errRefused
		}); !errors.Is(err, errRefused) {
			f.Errorf("the joined closure gives %v, want %v", err, errRefused)
		}
		return nil
	}))
	f.wantBalance(1, 111)
	f.wantAborted(f.DB.Do(f.ctx, func(ctx context.Context, _ T) error {
		f.must(f.DB.Do(ctx, func(ctx context.Context, t T) error { return f.add(ctx, t, 1, 1) }))
		return errRefused
	}), errRefused)
	f.wantBalance(1, 111)
}

func twinJoins[T any](f *fixture[T]) {
	hooked := false
	f.must(f.DB.Do(f.ctx, func(ctx context.Context, outer T) error {
		f.must(f.add(ctx, outer, 1, 1))
		if err := f.Twin.Do(ctx, func(ctx context.Context, _ T) error {
			f.must(f.Twin.Defer(ctx, outer, &tx.Stmt{SQL: addSQL, Args: []any{2, 10}}))
			f.must(tx.AfterCommit(ctx, f.failingHook))
			return errRefused
		}); !errors.Is(err, errRefused) {
			f.Errorf("the joined closure gives %v, want %v", err, errRefused)
		}
		return f.Twin.Do(ctx, func(ctx context.Context, t T) error {
			f.must(tx.AfterCommit(ctx, func(context.Context) { hooked = true }))
			f.must(f.Twin.Defer(ctx, t, &tx.Stmt{SQL: addSQL, Args: []any{2, 1}}))
			if got, err := f.balance(ctx, t, 2); got != 100 || err != nil {
				f.Errorf("the joined closure reads %d, %v, want 100, without what is deferred", got, err)
			}
			return f.add(ctx, t, 1, 1)
		})
	}))
	if !hooked {
		f.Error("the hook of the joined closure did not run")
	}
	f.wantBalance(1, 102)
	f.wantBalance(2, 101)
}

func nestedConflict[T any](f *fixture[T]) {
	for i, then := range []error{nil, errRefused, tx.ErrDiscard} {
		runs := 0
		f.must(f.DB.Run(f.ctx, tx.Plan[T]{Work: func(ctx context.Context, t T) error {
			runs++
			f.must(f.add(ctx, t, 1, 1))
			if runs > 1 {
				return nil
			}
			_ = f.DB.Nested(ctx, t, func(ctx context.Context, t T) error {
				return f.DB.Nested(ctx, t, func(ctx context.Context, t T) error { return f.conflict(ctx, t) })
			})
			return then
		}}))
		if runs != 2 {
			f.Errorf("the outermost closure, which went on to return %v, ran %d times, want 2", then, runs)
		}
		f.wantBalance(1, 101+int64(i))
	}
}

func innerNeverRetries[T any](f *fixture[T]) {
	outer, inner := 0, 0
	err := f.DB.With(tx.Options{Attempts: 3}).Do(f.ctx, func(ctx context.Context, _ T) error {
		outer++
		return f.DB.Do(ctx, func(ctx context.Context, t T) error {
			inner++
			return f.conflict(ctx, t)
		})
	})
	f.wantAborted(err, tx.ErrAttempts)
	if outer != 3 || inner != 3 {
		f.Errorf("the outer closure ran %d times and the inner %d, want 3 and 3", outer, inner)
	}
}
