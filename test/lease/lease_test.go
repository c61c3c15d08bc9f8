// Package lease_test runs the conformance suite of package lease on the adapters whose drivers the root module does not
// require.
package lease_test

import (
	"database/sql"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"
	_ "modernc.org/sqlite"

	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/lease/leasetest"
	"github.com/holdfast-go/holdfast/test/stddb"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/sqltx"
)

// sqliteParams let readers read while one writes.
const sqliteParams = stddb.WAL

func TestMain(m *testing.M) { testdb.Main(m) }

func TestSQLiteModernc(t *testing.T)     { leasetest.RunGuards(t, stddb.SQLite("sqlite", stddb.WAL)) }
func TestPostgresPgxStdlib(t *testing.T) { leasetest.RunGuards(t, stddb.Postgres("pgx")) }
func TestPostgresLibPQ(t *testing.T)     { leasetest.RunGuards(t, stddb.Postgres("postgres")) }

func TestStoreSQLite(t *testing.T) {
	leasetest.Run(t, func(t testing.TB) lease.FencingStore { return store(t, stddb.SQLite("sqlite", stddb.WAL)(t).DB) })
}

func TestStorePgxStdlib(t *testing.T) {
	leasetest.Run(t, func(t testing.TB) lease.FencingStore { return store(t, stddb.Postgres("pgx")(t).DB) })
}

// openDB opens a database at an address that others open too.
func openDB(t testing.TB, driver, dsn string, dialect *tx.Dialect) *tx.DB[*sql.Tx] {
	t.Helper()
	return sqltx.New(stddb.Open(t, driver, dsn, 8), dialect, nil)
}

func store(t testing.TB, db *tx.DB[*sql.Tx]) lease.FencingStore {
	t.Helper()
	if err := lease.Migrate(t.Context(), db, lease.Names{}); err != nil {
		t.Fatal(err)
	}
	return lease.NewSQL(db, lease.Names{})
}
