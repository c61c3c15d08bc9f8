package pessimistic_test

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/pessimistic"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
)

var (
	accounts = pessimistic.Table{Name: "account"}
	items    = pessimistic.Table{Schema: "shop", Name: "item", Key: "sku"}

	errInsufficient = errors.New("insufficient funds")
)

// A transfer in two round trips: the lock reads both balances, and the updates ride with COMMIT.
func ExampleLocks_Do() {
	var pool *pgxpool.Pool // open
	db := pgxtx.New(pool)
	locks := pessimistic.New(db, &pessimistic.Options{Wait: pessimistic.For(2 * time.Second), Hold: 5 * time.Second})

	transfer := func(ctx context.Context, from, to, amount int64) error {
		var id, balance int64
		balances := map[int64]int64{}
		both := accounts.Rows(from, to).Read([]string{"id", "balance"}, []any{&id, &balance}, func(int) error {
			balances[id] = balance
			return nil
		})
		return locks.Do(ctx, []pessimistic.Rows{both}, func(ctx context.Context, t pgx.Tx) error {
			if balances[from] < amount {
				return errInsufficient // nothing is committed
			}
			const set = "update account set balance = $2 where id = $1"
			return db.Defer(ctx, t,
				&tx.Stmt{SQL: set, Args: []any{from, balances[from] - amount}},
				&tx.Stmt{SQL: set, Args: []any{to, balances[to] + amount}})
		})
	}
	err := transfer(context.Background(), 1, 2, 500)
	var missing *pessimistic.MissingError
	switch {
	case errors.As(err, &missing): // missing.Keys have no account
	case errors.Is(err, pessimistic.ErrNotAvailable): // somebody else has held one of them for 2 seconds
	}
}

// A transaction that pgx began. The scope tells the guard of the locks, until the transaction ends.
func ExampleLocks_Lock() {
	var pool *pgxpool.Pool // open
	locks := pessimistic.New(pgxtx.New(pool), nil)

	reserve := func(ctx context.Context, order int64, skus ...any) error {
		var scope holdfast.LockScope
		defer scope.End()
		ctx = holdfast.WithLockScope(ctx, &scope)
		return pgx.BeginFunc(ctx, pool, func(t pgx.Tx) error {
			if err := locks.Lock(ctx, t, items.Rows(skus...), accounts.Rows(order)); err != nil {
				return err
			}
			_, err := t.Exec(ctx, "update shop.item set reserved = reserved + 1 where sku = any($1)", skus)
			return err
		})
	}
	_ = reserve(context.Background(), 7, "apple", "pear")
}

// A worker that does up to 20 jobs in a transaction. If it dies, they are free again.
func ExampleLocks_Work() {
	var pool *pgxpool.Pool // open
	db := pgxtx.New(pool)
	locks := pessimistic.New(db, nil)

	var id int64
	var ids []int64
	queue := pessimistic.Queue{Table: pessimistic.Table{Name: "job"}, Where: "state = $1", Args: []any{"ready"}, Limit: 20}
	queue = queue.Read([]string{"id"}, []any{&id}, func(row int) error {
		if row == 0 {
			ids = ids[:0] // the transaction runs again
		}
		ids = append(ids, id)
		return nil
	})
	n, err := locks.Work(context.Background(), queue, func(ctx context.Context, t pgx.Tx) error {
		for _, id := range ids {
			if err := db.Defer(ctx, t, &tx.Stmt{SQL: "delete from job where id = $1", Args: []any{id}}); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && n == 0 {
		return // nothing to do: wait for a notification, or a while
	}
}

// What has no row yet is locked by name: two requests do not open the same account.
func ExampleLocks_Advisory() {
	var pool *pgxpool.Pool // open
	db := pgxtx.New(pool)
	locks := pessimistic.New(db, nil)

	_ = db.Do(context.Background(), func(ctx context.Context, t pgx.Tx) error {
		if err := locks.Advisory(ctx, t, "open-account", "ada@example.com"); err != nil {
			return err
		}
		// Look whether she has one, and open it if not.
		return nil
	})
}

// A client that makes no call while its caller's transaction holds locks.
func ExampleGuard() {
	var pool *pgxpool.Pool // open
	locks := pessimistic.New(pgxtx.New(pool), nil)
	client := &http.Client{Transport: pessimistic.Guard(nil)}

	err := locks.Do(context.Background(), []pessimistic.Rows{accounts.Rows(1)}, func(ctx context.Context, _ pgx.Tx) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://bank.example/notify", nil)
		if err != nil {
			return err
		}
		answer, err := client.Do(r)
		if err != nil {
			return err
		}
		return answer.Body.Close()
	})
	var held *holdfast.LockHeldError
	if errors.As(err, &held) {
		return // the call was not made: make it after the commit, with tx.AfterCommit or from an outbox
	}
}
