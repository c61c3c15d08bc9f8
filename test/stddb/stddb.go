// Package stddb opens databases through database/sql, by drivers that the root module does not require, for the conformance
// suites of the patterns.
package stddb

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // "pgx"
	_ "github.com/lib/pq"              // "postgres"
	_ "modernc.org/sqlite"             // "sqlite"

	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/sqltx"
	"github.com/holdfast-go/holdfast/tx/txtest"
)

// Postgres opens schemas of their own, through "pgx" or "postgres".
func Postgres(driver string) func(testing.TB) txtest.Backend[*sql.Tx] {
	return func(t testing.TB) txtest.Backend[*sql.Tx] {
		t.Helper()
		return backend(Open(t, driver, testdb.Postgres(t), 12), tx.PostgreSQL)
	}
}

// WAL are the parameters of the driver "sqlite" that most tests want.
const WAL = "?_pragma=journal_mode(wal)"

// SQLite opens files of their own, with these parameters of the driver.
func SQLite(driver, params string) func(testing.TB) txtest.Backend[*sql.Tx] {
	return func(t testing.TB) txtest.Backend[*sql.Tx] {
		t.Helper()
		return backend(Open(t, driver, "file:"+filepath.Join(t.TempDir(), "test.db")+params, 12), tx.SQLite)
	}
}

// Open returns a pool of at most conns connections, which is closed in the end.
func Open(t testing.TB, driver, dsn string, conns int) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(conns)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func backend(db *sql.DB, dialect *tx.Dialect) txtest.Backend[*sql.Tx] {
	return txtest.Backend[*sql.Tx]{DB: sqltx.New(db, dialect, nil), Begin: func(ctx context.Context) (txtest.Foreign[*sql.Tx], error) {
		foreign, err := db.BeginTx(ctx, nil)
		if err != nil {
			return txtest.Foreign[*sql.Tx]{}, err
		}
		return txtest.Foreign[*sql.Tx]{
			Tx:       foreign,
			Commit:   func(context.Context) error { return foreign.Commit() },
			Rollback: func(context.Context) error { return foreign.Rollback() },
		}, nil
	}}
}
