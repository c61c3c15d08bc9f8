package idemtest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/internal/testdb/pgxdb"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
)

// A transaction of another pool between a transaction and a call that joins it changes nothing of what the call promises.
func TestAnotherPoolInBetween(t *testing.T) {
	t.Parallel()
	db, other := pgxtx.New(pgxdb.Pool(t, testdb.Postgres(t), 8)), pgxtx.New(pgxdb.Pool(t, testdb.Postgres(t), 8))
	if err := idem.Migrate(t.Context(), db, idem.Names{}); err != nil {
		t.Fatal(err)
	}
	keys, inbox := idem.New(db, &idem.Options{CacheBytes: 1 << 20}), idem.NewInbox(db, "c", nil)
	key, runs := idem.Key{Scope: "s", Name: "n", Value: "v"}, 0
	do := func(ctx context.Context) idem.Result[int] {
		res, err := idem.Do(ctx, keys, key, func(context.Context, pgx.Tx) (int, error) { runs++; return runs, nil })
		if err != nil {
			t.Error(err)
		}
		return res
	}
	between := func(fn func(ctx context.Context) error, then func()) error {
		return db.Do(t.Context(), func(ctx context.Context, _ pgx.Tx) error {
			err := other.Do(ctx, func(ctx context.Context, _ pgx.Tx) error { return fn(ctx) })
			then()
			return err
		})
	}

	// The other one commits first, and a reader then still sees what is to be deleted.
	do(t.Context())
	err := between(func(ctx context.Context) error {
		deleted, err := keys.Delete(ctx, key)
		if !deleted {
			t.Error("not deleted")
		}
		return err
	}, func() { do(t.Context()) })
	if res := do(t.Context()); err != nil || res.Replayed || res.Value != 2 {
		t.Errorf("after the deletion: got %+v, %v", res, err)
	}

	// Hooks of a closure that was called in between go with the transaction that it is part of.
	hooks := 0
	hook := func(ctx context.Context, _ pgx.Tx) error {
		return tx.AfterCommit(ctx, func(context.Context) { hooks++ })
	}
	failure := errors.New("the outer fails")
	for i, fails := range []error{failure, nil} {
		err := between(func(ctx context.Context) error {
			_, err := idem.Do(ctx, keys, idem.Key{Scope: "s", Name: "n", Value: "joined"}, func(ctx context.Context, t pgx.Tx) (int, error) {
				return 0, hook(ctx, t)
			})
			_, inboxErr := inbox.Do(ctx, "m", hook)
			return errors.Join(err, inboxErr, fails)
		}, func() {
			if hooks > 0 {
				t.Error("a hook ran before the commit")
			}
		})
		if !errors.Is(err, fails) || hooks != 2*i {
			t.Errorf("got %v and %d hooks", err, hooks)
		}
	}
}
