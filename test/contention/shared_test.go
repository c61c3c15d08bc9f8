package contention_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/singleflight"
	"github.com/holdfast-go/holdfast/tx"
)

// A load that a closure asks for is of all its callers: it reads what is committed, and no part of it goes with the transaction of
// the first.
func TestASharedLoadIsNotInTheTransactionOfItsFirstCaller(t *testing.T) {
	t.Parallel()
	db, _ := pgxDB(t, 2)
	exec(t, db, "create table entry (n int)")
	var hook error
	cache := singleflight.NewCache(func(ctx context.Context, _ string) (n int, err error) {
		hook = tx.AfterCommit(ctx, func(context.Context) {})
		err = db.Do(ctx, func(ctx context.Context, t pgx.Tx) error {
			return t.QueryRow(ctx, "select count(*) from entry").Scan(&n)
		})
		return n, err
	}, nil)
	undone := errors.New("undone")
	err := db.Do(t.Context(), func(ctx context.Context, nt pgx.Tx) error {
		if _, err := nt.Exec(ctx, "insert into entry values (1)"); err != nil {
			return err
		}
		if n, err := cache.Get(ctx, "entries"); n != 0 || err != nil {
			t.Errorf("within: %d entries, %v: who shares the load may not see what is not committed", n, err)
		}
		return undone
	})
	if !errors.Is(err, undone) {
		t.Error(err)
	}
	if !errors.Is(hook, tx.ErrNoTransaction) {
		t.Errorf("AfterCommit in the load: %v", hook)
	}
	if n, err := cache.Get(t.Context(), "entries"); n != 0 || err != nil {
		t.Errorf("afterwards: %d entries, %v", n, err)
	}
}
