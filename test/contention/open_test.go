// Package contention_test holds what breaks rows under contention in ways that are not of one pattern or one backend: keys that are one
// to the database, triggers that suppress, pools without a connection left, callbacks that panic.
package contention_test

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/internal/testdb/pgxdb"
	"github.com/holdfast-go/holdfast/test/stddb"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
	"github.com/holdfast-go/holdfast/tx/sqltx"
)

func TestMain(m *testing.M) { testdb.Main(m) }

func pgxDB(t testing.TB, conns int32) (*tx.DB[pgx.Tx], *pgxpool.Pool) {
	t.Helper()
	pool := pgxdb.Pool(t, testdb.Postgres(t), conns)
	return pgxtx.New(pool), pool
}

// sqlDB opens a database through database/sql: PostgreSQL by "pgx", or "sqlite".
func sqlDB(t testing.TB, driver string, conns int) (*tx.DB[*sql.Tx], *sql.DB) {
	t.Helper()
	dialect, dsn := tx.SQLite, "file:"+filepath.Join(t.TempDir(), "test.db")+"?_pragma=journal_mode(wal)&_pragma=busy_timeout(10000)"
	if driver != "sqlite" {
		dialect, dsn = tx.PostgreSQL, testdb.Postgres(t)
	}
	db := stddb.Open(t, driver, dsn, conns)
	return sqltx.New(db, dialect, nil), db
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func exec[T any](t testing.TB, db *tx.DB[T], query string) {
	t.Helper()
	if _, err := db.Conn().Exec(t.Context(), query); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

const doc = `create table doc (id integer primary key, version bigint not null default 0, title varchar(20), op text)`
