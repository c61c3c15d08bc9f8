package idem_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/test/stddb"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/sqltx"
)

func open(t *testing.T, driver, file, params string, o *sqltx.Options) (*sql.DB, *tx.DB[*sql.Tx]) {
	t.Helper()
	pool := stddb.Open(t, driver, "file:"+file+params, 8)
	return pool, sqltx.New(pool, tx.SQLite, o)
}

func one(context.Context, *sql.Tx) (int, error) { return 1, nil }

var someKey = idem.Key{Scope: "s", Name: "n", Value: "v"}

func TestSQLiteNotMigrated(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"sqlite", "sqlite3"} {
		pool, db := open(t, driver, filepath.Join(t.TempDir(), "a.db"), "", nil)
		check := func(what string, errs ...error) {
			t.Helper()
			for _, err := range errs {
				if !errors.Is(err, tx.ErrNotMigrated) || holdfast.OutcomeOf(err) != holdfast.NotApplied {
					t.Errorf("%s, %s: got %v", driver, what, err)
				}
			}
		}
		all := func(what string) {
			t.Helper()
			keys, inbox := idem.New(db, nil), idem.NewInbox(db, "c", nil)
			_, err := idem.Do(t.Context(), keys, someKey, one)
			_, inboxErr := inbox.Do(t.Context(), "id", func(context.Context, *sql.Tx) error { return nil })
			check(what, err, inboxErr, keys.Check(t.Context()), inbox.Check(t.Context()))
		}
		all("no tables")
		if err := idem.Migrate(t.Context(), db, idem.Names{}); err != nil {
			t.Fatal(err)
		}
		if _, err := pool.ExecContext(t.Context(), "alter table idem_key drop column nonce; alter table idem_inbox drop column received_at; alter table idem_inbox rename column expires_at to x"); err != nil {
			t.Fatal(err)
		}
		all("columns missing")
	}
}

func TestSQLiteReadOnly(t *testing.T) {
	t.Parallel()
	for driver, params := range map[string]string{"sqlite": "?mode=ro", "sqlite3": "?mode=ro"} {
		file := filepath.Join(t.TempDir(), "a.db")
		_, db := open(t, driver, file, "", nil)
		if err := idem.Migrate(t.Context(), db, idem.Names{}); err != nil {
			t.Fatal(err)
		}
		_, db = open(t, driver, file, params, nil)
		_, err := idem.Do(t.Context(), idem.New(db, nil), someKey, one)
		for _, err := range []error{err, idem.New(db, nil).Check(t.Context())} {
			if !errors.Is(err, tx.ErrReadOnly) || holdfast.OutcomeOf(err) != holdfast.NotApplied {
				t.Errorf("%s: got %v", driver, err)
			}
		}
	}
}

// A writer that does not end is waited for as long as the busy timeout and the attempts allow, and the error says busy.
func TestSQLiteBusy(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"sqlite", "sqlite3"} {
		pool, db := open(t, driver, filepath.Join(t.TempDir(), "a.db"), "?_busy_timeout=1", &sqltx.Options{BusyTimeout: time.Millisecond})
		if err := idem.Migrate(t.Context(), db, idem.Names{}); err != nil {
			t.Fatal(err)
		}
		conn, err := pool.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.ExecContext(t.Context(), "begin immediate"); err != nil {
			t.Fatal(err)
		}
		keys := idem.New(db.With(tx.Options{Attempts: 2}), nil)
		_, err = idem.Do(t.Context(), keys, someKey, one)
		var aborted *tx.AbortError
		if !errors.As(err, &aborted) || aborted.Class != tx.Retryable || !errors.Is(err, tx.ErrAttempts) || holdfast.OutcomeOf(err) != holdfast.NotApplied {
			t.Errorf("%s: got %v", driver, err)
		}
		if _, err := conn.ExecContext(t.Context(), "rollback"); err != nil {
			t.Fatal(err)
		}
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
		if res, err := idem.Do(t.Context(), keys, someKey, one); err != nil || res.Replayed {
			t.Errorf("%s: got %+v, %v", driver, res, err)
		}
	}
}

// The schema that the migrations make is the one that the code expects: every column, and none besides.
func TestSQLiteSchemaDoesNotDrift(t *testing.T) {
	t.Parallel()
	pool, db := open(t, "sqlite", filepath.Join(t.TempDir(), "a.db"), "", nil)
	if err := idem.Migrate(t.Context(), db, idem.Names{}); err != nil {
		t.Fatal(err)
	}
	rows, err := pool.QueryContext(t.Context(), `select m.name || '.' || c.name || ' ' || c.type || ' ' || c."notnull"
		from sqlite_master m, pragma_table_info(m.name) c where m.type = 'table' and m.name like 'idem%' order by m.name, c.cid`)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	var got []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		got = append(got, line)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	want := `idem_inbox.consumer TEXT 1
idem_inbox.message_id TEXT 1
idem_inbox.received_at INTEGER 1
idem_inbox.expires_at INTEGER 1
idem_key.k BLOB 0
idem_key.scope TEXT 1
idem_key.name TEXT 1
idem_key.state INTEGER 1
idem_key.fp BLOB 1
idem_key.nonce INTEGER 1
idem_key.epoch INTEGER 1
idem_key.lease_until INTEGER 0
idem_key.attempts INTEGER 1
idem_key.codec INTEGER 1
idem_key.status INTEGER 1
idem_key.body BLOB 0
idem_key.created_at INTEGER 1
idem_key.expires_at INTEGER 1
idem_key.input BLOB 0
idem_key.steps BLOB 0
idem_key.note TEXT 0
idem_key.waiters boolean 1
idem_key_epoch.epoch INTEGER 1`
	if strings.Join(got, "\n") != want {
		t.Fatalf("the schema has drifted:\n%s", strings.Join(got, "\n"))
	}
}
