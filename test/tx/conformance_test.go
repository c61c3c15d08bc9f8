// Package tx_test proves the adapters of tx on every engine and driver, and the faults that adapters like them have had.
package tx_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"
	_ "github.com/mattn/go-sqlite3"
	_ "modernc.org/sqlite"

	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/sqltx"
	"github.com/holdfast-go/holdfast/tx/txtest"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// An engine is a database driver and how to open an empty database with it.
type engine struct {
	name    string // of the driver
	dialect *tx.Dialect
	dsn     func(t testing.TB, lockWait time.Duration) string
}

var engines = []engine{
	{"pgx", tx.PostgreSQL, func(t testing.TB, _ time.Duration) string { return testdb.Postgres(t) }},
	{"postgres", tx.PostgreSQL, func(t testing.TB, _ time.Duration) string { return testdb.Postgres(t) }},
	{"sqlite", tx.SQLite, func(t testing.TB, _ time.Duration) string {
		return file(t) + "?_pragma=foreign_keys(1)&_pragma=journal_mode(wal)"
	}},
	// This driver has a busy timeout of its own unless the data source name sets another.
	{"sqlite3", tx.SQLite, func(t testing.TB, lockWait time.Duration) string {
		return fmt.Sprintf("%s?_foreign_keys=1&_journal_mode=wal&_busy_timeout=%d", file(t), lockWait.Milliseconds())
	}},
}

func file(t testing.TB) string { return "file:" + filepath.Join(t.TempDir(), "test.db") }

// open opens an empty database with a pool of conns connections.
func (e engine) open(t testing.TB, conns int, lockWait time.Duration) (*sql.DB, *tx.DB[*sql.Tx]) {
	t.Helper()
	pool, err := sql.Open(e.name, e.dsn(t, lockWait))
	if err != nil {
		t.Fatal(err)
	}
	pool.SetMaxOpenConns(conns)
	t.Cleanup(func() {
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	})
	return pool, sqltx.New(pool, e.dialect, &sqltx.Options{BusyTimeout: lockWait})
}

// each runs fn as a parallel subtest on each engine that has the dialect, or on all if it is nil.
func each(t *testing.T, dialect *tx.Dialect, fn func(t *testing.T, e engine)) {
	t.Parallel()
	for _, e := range engines {
		if dialect == nil || dialect == e.dialect {
			t.Run(e.name, func(t *testing.T) {
				t.Parallel()
				fn(t, e)
			})
		}
	}
}

func TestConformance(t *testing.T) {
	each(t, nil, func(t *testing.T, e engine) {
		txtest.Run(t, txtest.Harness[*sql.Tx]{Open: func(t *testing.T, s txtest.Setup) txtest.Database[*sql.Tx] {
			pool, db := e.open(t, s.Conns, s.LockWait)
			return txtest.Database[*sql.Tx]{
				DB:       db,
				Twin:     sqltx.New(pool, e.dialect, nil),
				Begin:    func(ctx context.Context) (*sql.Tx, error) { return pool.BeginTx(ctx, nil) },
				Commit:   func(_ context.Context, t *sql.Tx) error { return t.Commit() },
				Rollback: func(_ context.Context, t *sql.Tx) error { return t.Rollback() },
				InUse:    func() int { return pool.Stats().InUse },
			}
		}})
	})
}
