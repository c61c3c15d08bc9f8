package txtest

import (
	"context"

	"github.com/holdfast-go/holdfast/tx"
)

func optionRules[T any]() []rule[T] {
	return []rule[T]{
		{
			name: "isolation", rule: "The isolation level that was asked for is the one that runs, and it does not stick to the connection.",
			needs: isolationLevels, check: isolation[T], conns: 1,
		},
		{
			name: "read-only", rule: "A read-only transaction reads one snapshot, cannot write, and leaves a connection that can.",
			check: readOnly[T], conns: 1,
		},
		{
			name: "read-only beside", rule: "A read-only transaction does not wait for a writer.",
			check: readOnlyBeside[T],
		},
		{
			name: "write from the start", rule: "On an engine with a single writer a transaction that reads first and then writes never fails for that.",
			needs: singleWriter, check: writesFromTheStart[T],
		},
	}
}

func isolation[T any](f *fixture[T]) {
	level := func(o tx.Options) (level string) {
		f.must(f.DB.With(o).Do(f.ctx, func(ctx context.Context, t T) error {
			return f.DB.Tx(t).QueryRow(ctx, "select current_setting('transaction_isolation')").Scan(&level)
		}))
		return level
	}
	usual := level(tx.Options{})
	for _, want := range []tx.Isolation{tx.ReadCommitted, tx.RepeatableRead, tx.Serializable} {
		if got := level(tx.Options{Isolation: want}); got != want.String() {
			f.Errorf("the level is %q, want %q", got, want)
		}
		if got := level(tx.Options{Isolation: want, ReadOnly: true}); got != want.String() {
			f.Errorf("the level of a read-only transaction is %q, want %q", got, want)
		}
		if got := level(tx.Options{}); got != usual {
			f.Errorf("the level afterwards is %q, want %q", got, usual)
		}
	}
}

func readOnly[T any](f *fixture[T]) {
	db := f.DB.With(tx.Options{ReadOnly: true})
	endings := []func() error{
		func() error { return nil },
		func() error { return errRefused },
		func() error { panic(errRefused) },
	}
	for i, end := range endings {
		protect(func() {
			_ = db.Do(f.ctx, func(ctx context.Context, t T) error {
				if got, err := f.balance(ctx, t, 1); got != 100+int64(i) || err != nil {
					f.Errorf("read %d, %v, want %d", got, err, 100+i)
				}
				return end()
			})
		})
		f.wantAborted(db.Do(f.ctx, func(ctx context.Context, t T) error { return f.add(ctx, t, 1, 1) }), tx.ErrReadOnly)
		f.exec(addSQL, 1, 1)
		f.must(f.DB.Do(f.ctx, func(ctx context.Context, t T) error { return f.add(ctx, t, 2, 1) }))
	}
	f.wantBalance(1, 103)
	f.wantBalance(2, 103)
}

func readOnlyBeside[T any](f *fixture[T]) {
	f.foreign(func(writer T) {
		f.must(f.add(f.ctx, writer, 1, 1))
		f.must(f.DB.With(tx.Options{ReadOnly: true, Attempts: 1}).Do(f.ctx, func(ctx context.Context, t T) error {
			if got, err := f.balance(ctx, t, 1); got != 100 || err != nil {
				f.Errorf("read %d, %v, want what is committed, 100", got, err)
			}
			return nil
		}))
	}, f.Commit)
}

func writesFromTheStart[T any](f *fixture[T]) {
	f.must(f.DB.With(tx.Options{Attempts: 1}).Do(f.ctx, func(ctx context.Context, t T) error {
		balance, err := f.balance(ctx, t, 1)
		f.must(err)
		// Nobody can write in between, which is what would make a deferred transaction fail.
		if _, err := f.DB.Conn().Exec(f.ctx, addSQL, 1, 1); f.DB.Classify(err) != tx.Retryable {
			f.Errorf("a second writer gets %v, want it busy", err)
		}
		_, err = f.DB.Tx(t).Exec(ctx, "update account set balance = $2 where id = $1", 1, balance+1)
		return err
	}))
	f.wantBalance(1, 101)
}
