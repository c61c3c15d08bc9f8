package txtest

import (
	"context"
	"errors"
	"runtime"

	"github.com/holdfast-go/holdfast/tx"
)

func outcomeRules[T any]() []rule[T] {
	return []rule[T]{
		{name: "commit", rule: "A closure that returns nil is applied.", check: commits[T]},
		{name: "rollback", rule: "A closure that returns an error is not applied, and its error comes back.", check: rollsBack[T]},
		{name: "panic", rule: "A panic rolls back and goes on up with its value.", check: panics[T], conns: 1},
		{name: "goexit", rule: "runtime.Goexit rolls back and goes on up.", check: exits[T], conns: 1},
		{name: "nil closure", rule: "A nil closure is an error, and nothing begins.", check: refusesNil[T]},
		{
			name: "swallowed error", rule: "A closure that drops an error which aborted its transaction gets ErrTxAborted, never nil.",
			needs: abortsOnError, check: swallows[T],
		},
		{
			name: "swallowed error before deferred", rule: "A transaction that is aborted gives ErrTxAborted also when statements were deferred.",
			needs: abortsOnError, check: swallowsBeforeDeferred[T],
		},
		{name: "discard", rule: "A plan that returns ErrDiscard ends without effect and without an error.", check: discards[T]},
		{name: "commit refused", rule: "A commit that the database refuses is an abort with the class of the reason.", check: commitRefused[T]},
		{name: "autocommit", rule: "Conn runs statements outside transactions, and answers ErrNoRows.", check: autocommits[T]},
	}
}

func commits[T any](f *fixture[T]) {
	f.must(f.DB.Do(f.ctx, func(ctx context.Context, t T) error {
		if err := f.add(ctx, t, 1, -30); err != nil {
			return err
		}
		if err := f.add(ctx, t, 2, 30); err != nil {
			return err
		}
		if got, err := f.balance(ctx, t, 1); err != nil || got != 70 {
			f.Errorf("the closure reads %d, %v, want its own write, 70", got, err)
		}
		return nil
	}))
	f.wantBalance(1, 70)
	f.wantBalance(2, 130)
}

func rollsBack[T any](f *fixture[T]) {
	runs := 0
	err := f.DB.Do(f.ctx, func(ctx context.Context, t T) error {
		runs++
		f.must(f.add(ctx, t, 1, -30))
		return errRefused
	})
	aborted := f.wantAborted(err, errRefused)
	if runs != 1 || aborted.Attempts != 1 || aborted.Stop != nil || aborted.Class != tx.Permanent {
		f.Errorf("the closure ran %d times and the error is %+v, want one run, not tried again", runs, aborted)
	}
	f.wantBalance(1, 100)
}

func panics[T any](f *fixture[T]) {
	panicked, _ := protect(func() {
		_ = f.DB.Do(f.ctx, func(ctx context.Context, t T) error {
			f.check(f.add(ctx, t, 1, -30))
			panic(errRefused)
		})
	})
	if panicked != any(errRefused) {
		f.Errorf("recovered %v, want %v", panicked, errRefused)
	}
	f.wantBalance(1, 100)
}

func exits[T any](f *fixture[T]) {
	panicked, returned := protect(func() {
		_ = f.DB.Do(f.ctx, func(ctx context.Context, t T) error {
			f.check(f.add(ctx, t, 1, -30))
			runtime.Goexit()
			return nil
		})
	})
	if panicked != nil || returned {
		f.Errorf("recovered %v, returned %v, want the goroutine to end", panicked, returned)
	}
	f.wantBalance(1, 100)
}

func refusesNil[T any](f *fixture[T]) {
	f.wantAborted(f.DB.Do(f.ctx, nil), tx.ErrNilFunc)
	f.wantAborted(f.DB.Run(f.ctx, tx.Plan[T]{}), tx.ErrNilFunc)
	f.must(f.DB.Do(f.ctx, func(ctx context.Context, t T) error {
		if err := f.DB.Nested(ctx, t, nil); !errors.Is(err, tx.ErrNilFunc) {
			f.Errorf("Nested returned %v, want %v", err, tx.ErrNilFunc)
		}
		return nil
	}))
}

func swallows[T any](f *fixture[T]) {
	err := f.DB.Do(f.ctx, func(ctx context.Context, t T) error {
		f.must(f.add(ctx, t, 1, -30))
		if _, err := f.DB.Tx(t).Exec(ctx, "insert into account (id, balance) values (1, 0)"); err == nil {
			f.Error("a duplicate key was accepted")
		}
		return nil
	})
	f.wantAborted(err, tx.ErrTxAborted)
	f.wantBalance(1, 100)
}

func swallowsBeforeDeferred[T any](f *fixture[T]) {
	err := f.DB.Do(f.ctx, func(ctx context.Context, t T) error {
		f.must(f.DB.Defer(ctx, t, &tx.Stmt{SQL: addSQL, Args: []any{2, 1}}))
		_, err := f.DB.Tx(t).Exec(ctx, "insert into account (id, balance) values (1, 0)")
		if err == nil {
			f.Error("a duplicate key was accepted")
		}
		return nil
	})
	f.wantAborted(err, tx.ErrTxAborted)
	f.wantBalance(2, 100)
}

func discards[T any](f *fixture[T]) {
	f.must(f.DB.Run(f.ctx, tx.Plan[T]{Work: func(ctx context.Context, t T) error {
		f.must(tx.AfterCommit(ctx, func(context.Context) { f.Error("a hook ran though nothing was committed") }))
		f.must(f.add(ctx, t, 1, -30))
		return tx.ErrDiscard
	}}))
	f.wantIdlePool()
	f.wantBalance(1, 100)
}

func commitRefused[T any](f *fixture[T]) {
	f.exec("create table entry (account integer not null references account (id) deferrable initially deferred)")
	err := f.DB.Do(f.ctx, func(ctx context.Context, t T) error {
		f.must(f.add(ctx, t, 1, -30))
		_, err := f.DB.Tx(t).Exec(ctx, "insert into entry (account) values (3)")
		return err
	})
	if aborted := f.wantAborted(err, nil); aborted.Class != tx.ForeignKey {
		f.Errorf("the class of %v is %v, want %v", err, aborted.Class, tx.ForeignKey)
	}
	f.wantBalance(1, 100)
}

func autocommits[T any](f *fixture[T]) {
	conn := f.DB.Conn()
	n, err := conn.Exec(f.ctx, "update account set balance = balance + $1", 1)
	if err != nil || n != 2 {
		f.Errorf("updated %d rows, %v, want 2", n, err)
	}
	f.wantBalance(1, 101)
	var balance int64
	if err := conn.QueryRow(f.ctx, "select balance from account where id = $1", 3).Scan(&balance); !errors.Is(err, tx.ErrNoRows) {
		f.Errorf("a row that is not there gives %v, want %v", err, tx.ErrNoRows)
	}
	rows, err := conn.Query(f.ctx, "select balance from account order by id")
	f.must(err)
	defer rows.Close()
	for rows.Next() {
		f.check(rows.Scan(&balance))
	}
	f.check(rows.Err())
	rows.Close() // twice is safe
}
