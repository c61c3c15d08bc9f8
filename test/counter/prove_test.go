package counter_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/counter"
	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/internal/testdb/pgxdb"
	"github.com/holdfast-go/holdfast/prove"
	"github.com/holdfast-go/holdfast/test/stddb"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
	"github.com/holdfast-go/holdfast/tx/sqltx"
)

// quick are for commits whose reply never comes.
var quick = tx.Options{CommitTimeout: time.Second}

func TestProvePgxInTheDriver(t *testing.T) {
	proveAll(t, inTransactions, func(t *testing.T) *prove.Database[*tx.DB[pgx.Tx]] {
		db := pgxtx.New(pgxdb.Pool(t, testdb.Postgres(t), 8)).With(quick)
		migrate(t, db)
		return prove.Driver(db)
	})
}

func TestProvePostgresSQL(t *testing.T) {
	proveAll(t, inTransactions, func(t *testing.T) *prove.Database[*tx.DB[*sql.Tx]] {
		return proveSQL(t, "pgx", testdb.Postgres(t), tx.PostgreSQL)
	})
}

func TestProveSQLite(t *testing.T) {
	proveAll(t, []string{"Add", "AddMany"}, proveSQLite)
}

const sqliteParams = "?_pragma=journal_mode(wal)&_pragma=synchronous(off)&_pragma=busy_timeout(5000)&_txlock=immediate"

func proveSQLite(t *testing.T) *prove.Database[*tx.DB[*sql.Tx]] {
	return proveSQL(t, "sqlite", "file:"+filepath.Join(t.TempDir(), "a.db")+sqliteParams, tx.SQLite)
}

func proveSQL(t *testing.T, driver, dsn string, dialect *tx.Dialect) *prove.Database[*tx.DB[*sql.Tx]] {
	t.Helper()
	pool := stddb.Open(t, driver, dsn, 8)
	migrate(t, sqltx.New(pool, dialect, nil))
	return prove.Through(prove.SQL(driver, dsn), func(pool *sql.DB) *tx.DB[*sql.Tx] { return sqltx.New(pool, dialect, nil).With(quick) })
}

func migrate[T any](t *testing.T, db *tx.DB[T]) {
	t.Helper()
	if err := counter.Migrate(t.Context(), db, counter.Names{}); err != nil {
		t.Fatal(err)
	}
}

// inTransactions are the verbs that need no statement which commits itself: the harness can let one of those be refused after
// it took effect, which no server does.
var inTransactions = []string{"AddTx", "AddMany"}

func proveAll[T any](t *testing.T, only []string, open func(t *testing.T) *prove.Database[*tx.DB[T]]) {
	for name, h := range map[string]prove.Handler[*tx.DB[T], int64]{
		"Add":     {Call: addCall[T], Effects: added[T]},
		"Take":    {Call: takeCall[T], Effects: taken[T]},
		"AddTx":   {Call: addTxCall[T], Effects: added[T]},
		"AddMany": {Call: addManyCall[T], Effects: addedMany[T]},
	} {
		if !slices.Contains(only, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := open(t)
			prove.Twice(t, db, h)
			prove.Together(t, db, h)
			prove.CrashEverywhere(t, db, h)
		})
	}
}

func addCall[T any](ctx context.Context, db *tx.DB[T], key string) (int64, error) {
	_, err := counter.New(db, nil).Add(ctx, key, 1, counter.Once("op"))
	return 0, err
}

func added[T any](ctx context.Context, db *tx.DB[T], key string) (int, error) {
	n, err := counter.New(db, nil).Get(ctx, key)
	return int(n), err
}

// takeCall takes of a stock that it makes sure of.
func takeCall[T any](ctx context.Context, db *tx.DB[T], key string) (int64, error) {
	_, err := db.Conn().Exec(ctx, "insert into counter (name, slot, n) values ($1, 0, 10) on conflict do nothing", key+" stock")
	if err != nil {
		return 0, err
	}
	_, err = counter.New(db, nil).Take(ctx, key+" stock", 1, counter.Once("op"))
	return 0, err
}

func taken[T any](ctx context.Context, db *tx.DB[T], key string) (int, error) {
	n, err := counter.New(db, nil).Get(ctx, key+" stock")
	if n == 0 {
		return 0, err
	}
	return int(10 - n), err
}

func addTxCall[T any](ctx context.Context, db *tx.DB[T], key string) (int64, error) {
	c := counter.New(db, nil)
	return 0, db.Do(ctx, func(ctx context.Context, t T) error {
		_, err := c.AddTx(ctx, t, key, 1, counter.Once("op"))
		return err
	})
}

func addManyCall[T any](ctx context.Context, db *tx.DB[T], key string) (int64, error) {
	return 0, counter.New(db, nil).AddMany(ctx, []counter.Change{{Key: key + "b", N: 1}, {Key: key + "a", N: 1}}, counter.Once("op"))
}

func addedMany[T any](ctx context.Context, db *tx.DB[T], key string) (int, error) {
	a, err := added(ctx, db, key+"a")
	if err != nil {
		return 0, err
	}
	b, err := added(ctx, db, key+"b")
	if err == nil && a != b {
		err = fmt.Errorf("%d of one and %d of the other", a, b)
	}
	return a, err
}
