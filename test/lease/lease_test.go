// Package lease_test runs the conformance suite of package lease on the adapters whose drivers the root module does not
// require.
package lease_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"
	_ "modernc.org/sqlite"

	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/lease/leasetest"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/sqltx"
)

// sqliteParams let readers read while one writes.
const sqliteParams = "?_pragma=journal_mode(wal)"

func TestMain(m *testing.M) { testdb.Main(m) }

func TestSQLiteModernc(t *testing.T) { runSQLite(t, "sqlite", sqliteParams) }

func TestPostgresPgxStdlib(t *testing.T) { runPostgres(t, "pgx") }
func TestPostgresLibPQ(t *testing.T)     { runPostgres(t, "postgres") }

func runSQLite(t *testing.T, driver, params string) {
	leasetest.RunGuards(t, func(t testing.TB) leasetest.Harness[*sql.Tx] {
		file := "file:" + filepath.Join(t.TempDir(), "test.db") + params
		return harness(t, driver, file, tx.SQLite)
	})
}

func runPostgres(t *testing.T, driver string) {
	leasetest.RunGuards(t, func(t testing.TB) leasetest.Harness[*sql.Tx] {
		return harness(t, driver, testdb.Postgres(t), tx.PostgreSQL)
	})
}

func harness(t testing.TB, driver, dsn string, dialect *tx.Dialect) leasetest.Harness[*sql.Tx] {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(8)
	return leasetest.Harness[*sql.Tx]{DB: sqltx.New(db, dialect, nil), Begin: func(ctx context.Context) (leasetest.Foreign[*sql.Tx], error) {
		foreign, err := db.BeginTx(ctx, nil)
		if err != nil {
			return leasetest.Foreign[*sql.Tx]{}, err
		}
		return leasetest.Foreign[*sql.Tx]{
			Tx:       foreign,
			Commit:   func(context.Context) error { return foreign.Commit() },
			Rollback: func(context.Context) error { return foreign.Rollback() },
		}, nil
	}}
}

func TestStoreSQLite(t *testing.T) {
	leasetest.Run(t, func(t testing.TB) lease.FencingStore {
		return store(t, harness(t, "sqlite", "file:"+filepath.Join(t.TempDir(), "test.db")+sqliteParams, tx.SQLite).DB)
	})
}

func TestStorePgxStdlib(t *testing.T) {
	leasetest.Run(t, func(t testing.TB) lease.FencingStore {
		return store(t, harness(t, "pgx", testdb.Postgres(t), tx.PostgreSQL).DB)
	})
}

func store(t testing.TB, db *tx.DB[*sql.Tx]) lease.FencingStore {
	t.Helper()
	if err := lease.Migrate(t.Context(), db, lease.Names{}); err != nil {
		t.Fatal(err)
	}
	return lease.NewSQL(db, lease.Names{})
}
