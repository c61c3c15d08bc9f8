// Package counter_test runs the conformance suite of package counter on the adapters whose drivers the root module does not
// require.
package counter_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"
	_ "modernc.org/sqlite"

	"github.com/holdfast-go/holdfast/counter/countertest"
	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/sqltx"
)

func TestMain(m *testing.M) { testdb.Main(m) }

func TestSQLiteModernc(t *testing.T) { runSQLite(t, "sqlite", "?_pragma=journal_mode(wal)") }

func TestPostgresPgxStdlib(t *testing.T) { runPostgres(t, "pgx") }
func TestPostgresLibPQ(t *testing.T)     { runPostgres(t, "postgres") }

func runSQLite(t *testing.T, driver, params string) {
	countertest.Run(t, func(t testing.TB) countertest.Harness[*sql.Tx] {
		file := "file:" + filepath.Join(t.TempDir(), "test.db") + params
		return harness(t, driver, file, tx.SQLite)
	})
}

func runPostgres(t *testing.T, driver string) {
	countertest.Run(t, func(t testing.TB) countertest.Harness[*sql.Tx] {
		return harness(t, driver, testdb.Postgres(t), tx.PostgreSQL)
	})
}

func harness(t testing.TB, driver, dsn string, dialect *tx.Dialect) countertest.Harness[*sql.Tx] {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(8)
	return countertest.Harness[*sql.Tx]{DB: sqltx.New(db, dialect, nil), Begin: func(ctx context.Context) (countertest.Foreign[*sql.Tx], error) {
		foreign, err := db.BeginTx(ctx, nil)
		if err != nil {
			return countertest.Foreign[*sql.Tx]{}, err
		}
		return countertest.Foreign[*sql.Tx]{
			Tx:       foreign,
			Commit:   func(context.Context) error { return foreign.Commit() },
			Rollback: func(context.Context) error { return foreign.Rollback() },
		}, nil
	}}
}
