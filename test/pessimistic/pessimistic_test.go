// Package pessimistic_test runs the conformance suite of package pessimistic on the adapters whose drivers the root module
// does not require, and its crash points.
package pessimistic_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"
	_ "modernc.org/sqlite"

	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/pessimistic/pessimistictest"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/sqltx"
)

func TestMain(m *testing.M) { testdb.Main(m) }

func TestSQLiteModernc(t *testing.T) {
	pessimistictest.Run(t, func(t testing.TB) pessimistictest.Harness[*sql.Tx] {
		file := "file:" + filepath.Join(t.TempDir(), "test.db") + "?_pragma=journal_mode(wal)&_pragma=synchronous(off)&_pragma=busy_timeout(20000)"
		return harness(t, "sqlite", file, tx.SQLite)
	})
}

func TestPostgresPgxStdlib(t *testing.T) { runPostgres(t, "pgx") }
func TestPostgresLibPQ(t *testing.T)     { runPostgres(t, "postgres") }

func runPostgres(t *testing.T, driver string) {
	pessimistictest.Run(t, func(t testing.TB) pessimistictest.Harness[*sql.Tx] {
		return harness(t, driver, testdb.Postgres(t), tx.PostgreSQL)
	})
}

func harness(t testing.TB, driver, dsn string, dialect *tx.Dialect) pessimistictest.Harness[*sql.Tx] {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(12)
	return pessimistictest.Harness[*sql.Tx]{DB: sqltx.New(db, dialect, nil), Begin: func(ctx context.Context) (pessimistictest.Foreign[*sql.Tx], error) {
		foreign, err := db.BeginTx(ctx, nil)
		if err != nil {
			return pessimistictest.Foreign[*sql.Tx]{}, err
		}
		return pessimistictest.Foreign[*sql.Tx]{
			Tx:       foreign,
			Commit:   func(context.Context) error { return foreign.Commit() },
			Rollback: func(context.Context) error { return foreign.Rollback() },
		}, nil
	}}
}
