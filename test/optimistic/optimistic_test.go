// Package optimistic_test runs the conformance suite of package optimistic on the adapters whose drivers the root module does not
// require.
package optimistic_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"
	_ "github.com/mattn/go-sqlite3"
	_ "modernc.org/sqlite"

	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/optimistic/optimistictest"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/sqltx"
)

func TestMain(m *testing.M) { testdb.Main(m) }

func TestSQLiteModernc(t *testing.T) { runSQLite(t, "sqlite", "?_pragma=journal_mode(wal)") }
func TestSQLiteMattn(t *testing.T)   { runSQLite(t, "sqlite3", "?_journal_mode=wal") }

func TestPostgresPgxStdlib(t *testing.T) { runPostgres(t, "pgx") }
func TestPostgresLibPQ(t *testing.T)     { runPostgres(t, "postgres") }

func runSQLite(t *testing.T, driver, params string) {
	optimistictest.Run(t, func(t testing.TB) optimistictest.Harness[*sql.Tx] {
		file := "file:" + filepath.Join(t.TempDir(), "test.db") + params
		return harness(t, driver, file, tx.SQLite)
	})
}

func runPostgres(t *testing.T, driver string) {
	optimistictest.Run(t, func(t testing.TB) optimistictest.Harness[*sql.Tx] {
		return harness(t, driver, testdb.Postgres(t), tx.PostgreSQL)
	})
}

func harness(t testing.TB, driver, dsn string, dialect *tx.Dialect) optimistictest.Harness[*sql.Tx] {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(8)
	return optimistictest.Harness[*sql.Tx]{DB: sqltx.New(db, dialect, nil), Begin: func(ctx context.Context) (optimistictest.Foreign[*sql.Tx], error) {
		foreign, err := db.BeginTx(ctx, nil)
		if err != nil {
			return optimistictest.Foreign[*sql.Tx]{}, err
		}
		return optimistictest.Foreign[*sql.Tx]{
			Tx:       foreign,
			Commit:   func(context.Context) error { return foreign.Commit() },
			Rollback: func(context.Context) error { return foreign.Rollback() },
		}, nil
	}}
}
