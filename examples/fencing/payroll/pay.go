// Package payroll is the fencing story: salaries that must be paid once, by processes that can be stopped at any moment.
package payroll

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/examples/internal/story"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/tx"
)

// ErrLockLost: the lock has another owner.
var ErrLockLost = errors.New("the lock was lost")

// A Lock is one with an end, in the naive way.
type Lock interface {
	// Acquire waits for it.
	Acquire(ctx context.Context) error
	// Mine tells whether it is still the caller's.
	Mine(ctx context.Context) (bool, error)
	// Release gives it back, if it is.
	Release(ctx context.Context) error
}

// Naive pays under a lock with an end, and looks at it right before. It is stopped after that.
func Naive[T any](ctx context.Context, db *tx.DB[T], lock Lock, month string) error {
	if err := lock.Acquire(ctx); err != nil {
		return err
	}
	defer func() { _ = lock.Release(ctx) }()
	if paid, err := isPaid(ctx, db, month); paid || err != nil {
		return err
	}
	if mine, err := lock.Mine(ctx); !mine || err != nil {
		return errors.Join(ErrLockLost, err)
	}
	story.Point("checked")
	return db.Do(ctx, func(ctx context.Context, t T) error { return pay(ctx, db.Tx(t), month, 0) })
}

// A Guard lets the holder of a fence write in a transaction, or refuses.
type Guard[T any] func(ctx context.Context, t T, f lease.Fence) error

// Exact is the guard of leases in the same database: nobody takes the lease until the transaction has ended.
func Exact[T any](db *tx.DB[T]) Guard[T] {
	return func(ctx context.Context, t T, f lease.Fence) error { return f.Guard(ctx, db.Tx(t)) }
}

// Fenced pays under a lease, and its fence goes with the write.
func Fenced[T any](ctx context.Context, db *tx.DB[T], leases *lease.Leases[*lease.Held], guard Guard[T], month string) error {
	return leases.Run(ctx, "payout", func(ctx context.Context, h *lease.Held) error {
		if paid, err := isPaid(ctx, db, month); paid || err != nil {
			return err
		}
		if err := h.Check(); err != nil {
			return err
		}
		story.Point("checked")
		// A program that is well behaved stops here, since ctx has ended with the lease. This one does not even look, and is
		// refused by the database.
		ctx = context.WithoutCancel(ctx)
		return db.Do(ctx, func(ctx context.Context, t T) error {
			if err := guard(ctx, t, h.Fence()); err != nil {
				return err
			}
			story.Point("guarded")
			return pay(ctx, db.Tx(t), month, h.Fence().Token)
		})
	})
}

// pay stands for what is not undone by asking whether it was done: no constraint tells two payments apart.
func pay(ctx context.Context, conn tx.Conn, month string, token int64) error {
	_, err := conn.Exec(ctx, "insert into payment (month, token) values ($1, $2)", month, token)
	return err
}

func isPaid[T any](ctx context.Context, db *tx.DB[T], month string) (bool, error) {
	n, err := payments(ctx, db, month)
	return n > 0, err
}

// payments counts how often a month was paid.
func payments[T any](ctx context.Context, db *tx.DB[T], month string) (n int, err error) {
	err = db.Conn().QueryRow(ctx, "select count(*) from payment where month = $1", month).Scan(&n)
	return n, err
}

// Migrate makes the tables.
func Migrate[T any](ctx context.Context, db *tx.DB[T]) error {
	for _, query := range []string{
		"create table payment (month varchar(100) not null, token bigint not null)",
		"create table lock_row (name varchar(100) primary key, owner varchar(100) not null, ends bigint not null)",
	} {
		if _, err := db.Conn().Exec(ctx, query); err != nil {
			return fmt.Errorf("make the tables: %w", err)
		}
	}
	return lease.Migrate(ctx, db, lease.Names{})
}
