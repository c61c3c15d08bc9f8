package optimistictest_test

import (
	"context"
	"errors"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/internal/testdb/pgxdb"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/optimistic"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
)

var docTable = optimistic.Table{Name: "doc", Token: "op"}

// attempt calls all verbs that write by themselves and hands each error to check, which wants nothing written.
func attempt(ctx context.Context, t *testing.T, db *tx.DB[pgx.Tx], target error) {
	t.Helper()
	docs := optimistic.New(db, docTable, nil)
	want := optimistic.Want{Key: "a", Version: optimistic.At(0)}
	errs := map[string]error{}
	_, errs["Set"] = docs.Set(ctx, want, title)
	_, errs["Delete"] = docs.Delete(ctx, want)
	_, errs["Insert"] = docs.Insert(ctx, optimistic.Want{Key: "b"}, title)
	_, _, errs["Put"] = docs.Put(ctx, optimistic.Want{Key: "b"}, optimistic.Condition{}, optimistic.PlainOverwrite, title)
	_, errs["SetMany"] = docs.SetMany(ctx, []optimistic.Item{{Want: want, Set: title}})
	errs["Update"] = docs.Update(ctx, "a", func(ctx context.Context, t pgx.Tx) error {
		_, err := docs.SetTx(ctx, t, want, title)
		return err
	})
	_, errs["Edit"] = docs.Edit(ctx, optimistic.Want{Key: "a"}, nil, retitle)
	errs["SetAtCommit"] = docs.Update(ctx, "a", func(ctx context.Context, t pgx.Tx) error {
		_, err := docs.SetAtCommit(ctx, t, want, title)
		return err
	})
	for verb, err := range errs {
		if !errors.Is(err, target) || holdfast.OutcomeOf(err) != holdfast.NotApplied {
			t.Errorf("%s: got %v, which is %v", verb, err, holdfast.OutcomeOf(err))
		}
	}
}

func TestStoreIsDown(t *testing.T) {
	t.Parallel()
	server := testdb.PostgresServer(t)
	pool := pgxdb.Pool(t, server.URL(), 8)
	db := pgxtx.New(pool)
	if _, err := db.Conn().Exec(t.Context(), createDoc); err != nil {
		t.Fatal(err)
	}
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	pool.Reset() // a statement that was sent on a connection which died would be unknown, rightly
	attempt(t.Context(), t, db, tx.ErrNotSent)
	if err := optimistic.New(db, docTable, nil).Check(t.Context()); !errors.Is(err, tx.ErrNotSent) {
		t.Errorf("Check: got %v", err)
	}
}

func TestStoreIsReadOnly(t *testing.T) {
	t.Parallel()
	address := testdb.Postgres(t)
	if _, err := pgxdb.Pool(t, address, 8).Exec(t.Context(), createDoc+"; insert into doc (id) values ('a')"); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("default_transaction_read_only", "on")
	u.RawQuery = q.Encode()
	db := pgxtx.New(pgxdb.Pool(t, u.String(), 8))
	attempt(t.Context(), t, db, tx.ErrReadOnly)
	if err := optimistic.New(db, docTable, nil).Check(t.Context()); !errors.Is(err, tx.ErrReadOnly) {
		t.Errorf("Check: got %v", err)
	}
}

func TestStoreIsNotMigrated(t *testing.T) {
	t.Parallel()
	db := pgxtx.New(pgxdb.Pool(t, testdb.Postgres(t), 8))
	attempt(t.Context(), t, db, tx.ErrNotMigrated)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	attempt(ctx, t, db, context.Canceled)
}

// The reply to the commit of an Update is lost: it is never taken for a conflict, and never run again if it was applied.
func TestUpdateWhoseCommitIsLost(t *testing.T) {
	t.Parallel()
	address := testdb.Postgres(t)
	direct := pgxdb.Pool(t, address, 8)
	if _, err := direct.Exec(t.Context(), createDoc+"; insert into doc (id) values ('a')"); err != nil {
		t.Fatal(err)
	}
	proxy, err := wire.Start(address, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	docs := optimistic.New(pgxtx.New(pgxdb.Pool(t, proxy.URL(), 8)), docTable, nil)
	cut := proxy.CutReplyTo(wire.Runs("commit"))
	runs := 0
	err = docs.Update(t.Context(), "a", func(ctx context.Context, tt pgx.Tx) error {
		runs++
		_, err := docs.SetTx(ctx, tt, optimistic.Want{Key: "a", Version: optimistic.At(0)}, title)
		return err
	})
	if err != nil && holdfast.OutcomeOf(err) != holdfast.Unknown || errors.Is(err, optimistic.ErrConflict) || runs != 1 || cut.Hits() != 1 {
		t.Errorf("got %v after %d runs, %d cuts", err, runs, cut.Hits())
	}
	var version int
	if err := direct.QueryRow(t.Context(), "select version from doc").Scan(&version); err != nil || version != 1 {
		t.Errorf("version %d, %v", version, err)
	}
}
