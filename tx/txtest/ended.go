package txtest

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/tx"
)

func endedRules[T any]() []rule[T] {
	return []rule[T]{
		{
			name: "own commit", rule: "A closure that commits by itself is refused with ErrOwned, or told with an EndedError that the outcome is unknown.",
			check: func(f *fixture[T]) { endsByItself(f, f.Commit, 99) }, conns: 1,
		},
		{
			name: "own rollback", rule: "A closure that rolls back by itself is refused with ErrOwned, or told with an EndedError that the outcome is unknown.",
			check: func(f *fixture[T]) { endsByItself(f, f.Rollback, 100) }, conns: 1,
		},
		{
			name: "commit as text", rule: "A closure that sends COMMIT as SQL is told so, also when it then fails.",
			check: func(f *fixture[T]) { endsByText(f, "commit", 99) }, conns: 1,
		},
		{
			name: "rollback as text", rule: "A closure that sends ROLLBACK as SQL is told so, also when it then fails.",
			check: func(f *fixture[T]) { endsByText(f, "rollback", 100) }, conns: 1,
		},
		{
			name: "use after end", rule: "A transaction that has ended refuses statements.",
			check: usedAfterEnd[T], conns: 1,
		},
	}
}

// endsByItself runs a closure that calls a native end. balance is what that end leaves, if it is not refused.
func endsByItself[T any](f *fixture[T], end func(context.Context, T) error, balance int64) {
	for _, then := range []error{nil, errRefused} {
		f.exec("update account set balance = 100")
		var ended error
		err := f.DB.Do(f.ctx, func(ctx context.Context, t T) error {
			f.must(f.add(ctx, t, 1, -1))
			ended = end(ctx, t)
			return then
		})
		switch {
		case errors.Is(ended, tx.ErrOwned) && then == nil:
			f.must(err)
			f.wantBalance(1, 99)
		case errors.Is(ended, tx.ErrOwned):
			f.wantAborted(err, then)
			f.wantBalance(1, 100)
		default:
			f.must(ended)
			f.wantEnded(err)
			if then != nil && !errors.Is(err, then) {
				f.Errorf("got the error %v, want it to wrap %v", err, then)
			}
			f.wantBalance(1, balance)
		}
	}
}

func endsByText[T any](f *fixture[T], text string, balance int64) {
	for _, then := range []error{nil, errRefused} {
		f.exec("update account set balance = 100")
		f.wantEnded(f.DB.Do(f.ctx, func(ctx context.Context, t T) error {
			f.must(f.add(ctx, t, 1, -1))
			_, err := f.DB.Tx(t).Exec(ctx, text)
			f.must(err)
			return then
		}))
		f.wantBalance(1, balance)
	}
}

func usedAfterEnd[T any](f *fixture[T]) {
	var kept T
	f.must(f.DB.Do(f.ctx, func(_ context.Context, t T) error {
		kept = t
		return nil
	}))
	late := f.DB.Tx(kept)
	if _, err := late.Exec(f.ctx, addSQL, 1, 1); err == nil {
		f.Error("Exec on a transaction that has ended returned nil")
	}
	if err := late.Batch(f.ctx, &tx.Stmt{SQL: addSQL, Args: []any{1, 1}}); err == nil {
		f.Error("Batch on a transaction that has ended returned nil")
	}
	var balance int64
	if err := late.QueryRow(f.ctx, "select balance from account where id = 1").Scan(&balance); err == nil {
		f.Error("QueryRow on a transaction that has ended returned nil")
	}
	if rows, err := late.Query(f.ctx, "select balance from account"); err == nil {
		rows.Close()
		f.Error("Query on a transaction that has ended returned nil")
	}
	f.wantBalance(1, 100)
}
