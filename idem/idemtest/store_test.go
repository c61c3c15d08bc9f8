package idemtest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/internal/testdb/pgxdb"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
)

// attempt calls all verbs that begin a transaction of their own and hands each error to check.
func attempt(t *testing.T, db *tx.DB[pgx.Tx], check func(verb string, err error)) {
	t.Helper()
	fail := func(context.Context, pgx.Tx) (int, error) {
		t.Error("the closure ran")
		return 0, nil
	}
	keys, inbox := idem.New(db, nil), idem.NewInbox(db, "c", nil)
	_, err := idem.Do(t.Context(), keys, idem.Key{Scope: "s", Name: "n", Value: "v"}, fail)
	check("Do", err)
	_, err = inbox.Do(t.Context(), "id", func(ctx context.Context, t pgx.Tx) error { _, err := fail(ctx, t); return err })
	check("Inbox.Do", err)
	check("Keys.Check", keys.Check(t.Context()))
	check("Inbox.Check", inbox.Check(t.Context()))
}

func TestStoreIsDown(t *testing.T) {
	t.Parallel()
	server := testdb.PostgresServer(t)
	pool := pgxdb.Pool(t, server.URL(), 8)
	db := pgxtx.New(pool)
	if err := idem.Migrate(t.Context(), db, idem.Names{}); err != nil {
		t.Fatal(err)
	}
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	attempt(t, db, func(verb string, err error) {
		unavailable := errors.Is(err, tx.ErrNotSent)
		if strings.Contains(verb, "Do") {
			unavailable = errors.Is(err, idem.ErrStoreUnavailable)
		}
		if !unavailable || holdfast.OutcomeOf(err) != holdfast.NotApplied {
			t.Errorf("%s: got %v", verb, err)
		}
	})
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	res, err := idem.Do(t.Context(), idem.New(db, nil), idem.Key{Scope: "s", Name: "n", Value: "v"},
		func(context.Context, pgx.Tx) (int, error) { return 1, nil })
	if err != nil || res.Replayed {
		t.Fatalf("after the restart: got %+v, %v", res, err)
	}
}

func TestStoreIsReadOnly(t *testing.T) {
	t.Parallel()
	db := readOnlyDB(t)
	for _, check := range []func(context.Context) error{idem.New(db, nil).Check, idem.NewInbox(db, "c", nil).Check} {
		if err := check(t.Context()); !errors.Is(err, tx.ErrReadOnly) {
			t.Errorf("Check: got %v", err)
		}
	}
	_, err := idem.Do(t.Context(), idem.New(db, nil), idem.Key{Scope: "s", Name: "n", Value: "v"},
		func(context.Context, pgx.Tx) (int, error) { return 1, nil })
	if !errors.Is(err, tx.ErrReadOnly) || holdfast.OutcomeOf(err) != holdfast.NotApplied {
		t.Errorf("Do: got %v", err)
	}
	_, err = idem.NewInbox(db, "c", nil).Do(t.Context(), "id", func(context.Context, pgx.Tx) error { return nil })
	if !errors.Is(err, tx.ErrReadOnly) {
		t.Errorf("Inbox.Do: got %v", err)
	}
}

func TestStoreIsNotMigrated(t *testing.T) {
	t.Parallel()
	db := pgxtx.New(pgxdb.Pool(t, testdb.Postgres(t), 8))
	attempt(t, db, func(verb string, err error) {
		if !errors.Is(err, tx.ErrNotMigrated) || holdfast.OutcomeOf(err) != holdfast.NotApplied {
			t.Errorf("%s: got %v", verb, err)
		}
	})
	if err := idem.Migrate(t.Context(), db, idem.Names{}); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Conn().Exec(t.Context(), "alter table idem_key drop column nonce; alter table idem_inbox drop column expires_at"); err != nil {
		t.Fatal(err)
	}
	attempt(t, db, func(verb string, err error) {
		if !errors.Is(err, tx.ErrNotMigrated) {
			t.Errorf("%s with a column missing: got %v", verb, err)
		}
	})
}

func TestStoreIsSlow(t *testing.T) {
	t.Parallel()
	address := testdb.Postgres(t)
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 1
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	db := pgxtx.New(pool)
	if err := idem.Migrate(t.Context(), db, idem.Names{}); err != nil {
		t.Fatal(err)
	}
	taken, err := pool.Acquire(t.Context()) // nobody gets a connection
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	key := idem.Key{Scope: "s", Name: "n", Value: "v"}
	_, err = idem.Do(ctx, idem.New(db, nil), key, func(context.Context, pgx.Tx) (int, error) { return 1, nil })
	if !errors.Is(err, context.DeadlineExceeded) || holdfast.OutcomeOf(err) != holdfast.NotApplied {
		t.Fatalf("got %v", err)
	}
	taken.Release()
	// A statement that outlives its context: the transaction is gone, and the connection back or closed. The server may
	// take a moment to notice, so that the next call waits for the key.
	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	watch := pgxdb.Pool(t, address, 8)
	_, err = idem.Do(ctx, idem.New(db, nil), key, func(ctx context.Context, tt pgx.Tx) (int, error) {
		go func() {
			defer hangUp()
			awaitSleep(t, watch, tt.Conn().PgConn().PID()) // a request to cancel that overtakes its query is lost
		}()
		_, err := tt.Exec(ctx, "select pg_sleep(60)")
		return 1, err
	})
	if !errors.Is(err, context.Canceled) || holdfast.OutcomeOf(err) != holdfast.NotApplied {
		t.Fatalf("got %v", err)
	}
	waiting := idem.New(db, &idem.Options{Wait: 30 * time.Second})
	res, err := idem.Do(t.Context(), waiting, key, func(context.Context, pgx.Tx) (int, error) { return 2, nil })
	if err != nil || res.Replayed || res.Value != 2 {
		t.Fatalf("got %+v, %v", res, err)
	}
}

// awaitSleep waits until a backend sleeps.
func awaitSleep(t *testing.T, pool *pgxpool.Pool, pid uint32) {
	for asleep := false; !asleep; {
		query := "select exists (select from pg_stat_activity where pid = $1 and wait_event = 'PgSleep')"
		if err := pool.QueryRow(t.Context(), query, pid).Scan(&asleep); err != nil {
			t.Error(err)
			return
		}
	}
}

// The schema that the migrations make is the one that the code expects: every column, and none besides.
func TestSchemaDoesNotDrift(t *testing.T) {
	t.Parallel()
	pool := pgxdb.Pool(t, testdb.Postgres(t), 8)
	if err := idem.Migrate(t.Context(), pgxtx.New(pool), idem.Names{}); err != nil {
		t.Fatal(err)
	}
	rows, err := pool.Query(t.Context(), `select table_name || '.' || column_name || ' ' || data_type || ' ' || is_nullable
		from information_schema.columns where table_schema = current_schema() and table_name like 'idem%'
		order by table_name, ordinal_position`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	want := `idem_inbox.consumer text NO
idem_inbox.message_id text NO
idem_inbox.received_at timestamp with time zone NO
idem_inbox.expires_at timestamp with time zone NO
idem_key.k bytea NO
idem_key.scope text NO
idem_key.name text NO
idem_key.state smallint NO
idem_key.fp bytea NO
idem_key.nonce bigint NO
idem_key.epoch bigint NO
idem_key.lease_until timestamp with time zone YES
idem_key.attempts integer NO
idem_key.codec smallint NO
idem_key.status integer NO
idem_key.body bytea YES
idem_key.created_at timestamp with time zone NO
idem_key.expires_at timestamp with time zone NO
idem_key.input bytea YES
idem_key.steps bytea YES
idem_key.note text YES
idem_key.waiters boolean NO`
	if strings.Join(got, "\n") != want {
		t.Fatalf("the schema has drifted:\n%s", strings.Join(got, "\n"))
	}
}
