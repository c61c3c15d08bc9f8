package lease_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/prove"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
	"github.com/holdfast-go/holdfast/tx/sqltx"
)

// Work that looks and then acts, and is safe by nothing but the lease and its guard, has one effect: whatever fails, wherever
// a process dies, and with three processes held at each step, for longer than the lease lasts.

func TestProvePgx(t *testing.T) {
	proveAll(t, func(t *testing.T) *prove.Database[*tx.DB[pgx.Tx]] {
		db := pgxtx.New(openPool(t, testdb.Postgres(t))).With(quick)
		migrateEffects(t, db)
		return prove.Driver(db)
	})
}

func TestProvePgxOnTheWire(t *testing.T) {
	proveAll(t, func(t *testing.T) *prove.Database[*tx.DB[pgx.Tx]] {
		url := testdb.Postgres(t)
		migrateEffects(t, pgxtx.New(openPool(t, url)))
		return prove.Postgres(url, func(ctx context.Context, url string) (db *tx.DB[pgx.Tx], end func(), err error) {
			pool, err := pgxpool.New(ctx, url)
			if err != nil {
				return nil, nil, err
			}
			return pgxtx.New(pool).With(quick), pool.Close, nil
		})
	})
}

func TestProveSQLite(t *testing.T) {
	proveAll(t, func(t *testing.T) *prove.Database[*tx.DB[*sql.Tx]] {
		dsn := "file:" + filepath.Join(t.TempDir(), "a.db") + sqliteParams + "&_pragma=synchronous(off)"
		migrateEffects(t, openDB(t, "sqlite", dsn, tx.SQLite))
		return prove.Through(prove.SQL("sqlite", dsn), func(pool *sql.DB) *tx.DB[*sql.Tx] { return sqltx.New(pool, tx.SQLite, nil).With(quick) })
	})
}

// quick are for commits whose reply never comes.
var quick = tx.Options{CommitTimeout: time.Second}

func migrateEffects[T any](t testing.TB, db *tx.DB[T]) {
	t.Helper()
	migrate(t, db)
	if _, err := db.Conn().Exec(t.Context(), "create table effect (name text not null)"); err != nil {
		t.Fatal(err)
	}
}

func proveAll[T any](t *testing.T, open func(t *testing.T) *prove.Database[*tx.DB[T]]) {
	for name, proof := range map[string]func(prove.TB, *prove.Database[*tx.DB[T]], prove.Handler[*tx.DB[T], string]){
		"Twice":           prove.Twice[*tx.DB[T], string],
		"Together":        prove.Together[*tx.DB[T], string],
		"CrashEverywhere": prove.CrashEverywhere[*tx.DB[T], string],
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proof(t, open(t), prove.Handler[*tx.DB[T], string]{Call: lookAndAct[T], Effects: effects[T]})
		})
	}
}

func lookAndAct[T any](ctx context.Context, db *tx.DB[T], key string) (string, error) {
	leases := lease.New(lease.NewSQL(calmed(db), lease.Names{}), &lease.Options{TTL: 150 * time.Millisecond, PollEvery: 20 * time.Millisecond})
	return "done", leases.Run(ctx, key, func(ctx context.Context, h *lease.Held) error {
		return lease.Do(ctx, db, h, func(ctx context.Context, t T) error {
			n, err := count(ctx, db.Tx(t), key)
			if err == nil && n == 0 {
				_, err = db.Tx(t).Exec(ctx, "insert into effect values ($1)", key)
			}
			return err
		})
	})
}

func effects[T any](ctx context.Context, db *tx.DB[T], key string) (int, error) {
	return count(ctx, db.Conn(), key)
}

func count(ctx context.Context, c tx.Conn, key string) (n int, err error) {
	err = c.QueryRow(ctx, "select count(*) from effect where name = $1", key).Scan(&n)
	return n, err
}
