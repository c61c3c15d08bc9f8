package optimistic_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/internal/testdb/pgxdb"
	"github.com/holdfast-go/holdfast/optimistic"
	"github.com/holdfast-go/holdfast/prove"
	"github.com/holdfast-go/holdfast/test/stddb"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
	"github.com/holdfast-go/holdfast/tx/sqltx"
)

// quick are for commits whose reply never comes.
var quick = tx.Options{CommitTimeout: time.Second}

// On the wire each call has ten times the points: those that differ in what they send are enough.
func TestProvePgxOnTheWire(t *testing.T) {
	proveAll(t, []string{"Set", "Edit"}, func(t *testing.T) *prove.Database[*tx.DB[pgx.Tx]] {
		url := testdb.Postgres(t)
		prepare(t, pgxtx.New(pgxdb.Pool(t, url, 8)))
		return prove.Postgres(url, func(ctx context.Context, url string) (db *tx.DB[pgx.Tx], end func(), err error) {
			pool, err := pgxpool.New(ctx, url)
			if err != nil {
				return nil, nil, err
			}
			return pgxtx.New(pool).With(quick), pool.Close, nil
		})
	})
}

func TestProvePgxInTheDriver(t *testing.T) {
	proveAll(t, nil, func(t *testing.T) *prove.Database[*tx.DB[pgx.Tx]] {
		db := pgxtx.New(pgxdb.Pool(t, testdb.Postgres(t), 8))
		prepare(t, db)
		return prove.Through(prove.Driver(db), func(db *tx.DB[pgx.Tx]) *tx.DB[pgx.Tx] { return db.With(quick) })
	})
}

func TestProvePostgresSQL(t *testing.T) {
	proveAll(t, nil, func(t *testing.T) *prove.Database[*tx.DB[*sql.Tx]] {
		return proveSQL(t, "pgx", testdb.Postgres(t), tx.PostgreSQL)
	})
}

const sqliteParams = "?_pragma=journal_mode(wal)&_pragma=synchronous(off)&_pragma=busy_timeout(5000)&_txlock=immediate"

func TestProveSQLite(t *testing.T) {
	proveAll(t, nil, func(t *testing.T) *prove.Database[*tx.DB[*sql.Tx]] {
		return proveSQL(t, "sqlite", "file:"+filepath.Join(t.TempDir(), "a.db")+sqliteParams, tx.SQLite)
	})
}

func proveSQL(t *testing.T, driver, dsn string, dialect *tx.Dialect) *prove.Database[*tx.DB[*sql.Tx]] {
	t.Helper()
	pool := stddb.Open(t, driver, dsn, 8)
	prepare(t, sqltx.New(pool, dialect, nil))
	return prove.Through(prove.SQL(driver, dsn), func(pool *sql.DB) *tx.DB[*sql.Tx] { return sqltx.New(pool, dialect, nil).With(quick) })
}

// openSQLite opens a file of the test's own, whose writers wait for each other.
func openSQLite(t testing.TB) *tx.DB[*sql.Tx] {
	t.Helper()
	return stddb.SQLite("sqlite", sqliteParams)(t).DB
}

func prepare[T any](t testing.TB, db *tx.DB[T]) {
	t.Helper()
	_, err := db.Conn().Exec(t.Context(), `create table doc (id text primary key, size bigint not null default 0,
		version bigint not null default 0, op text)`)
	if err != nil {
		t.Fatal(err)
	}
}

func rowsOf[T any](db *tx.DB[T]) *optimistic.Rows[T] {
	return optimistic.New(db, optimistic.Table{Name: "doc", Token: "op"}, nil)
}

func proveAll[T any](t *testing.T, only []string, open func(t *testing.T) *prove.Database[*tx.DB[T]]) {
	for name, h := range map[string]prove.Handler[*tx.DB[T], int64]{
		"Insert":  {Call: insertCall[T], Effects: inserted[T]},
		"Set":     {Call: setCall[T], Effects: size[T]},
		"SetMany": {Call: manyCall[T], Effects: size[T]},
		"Own SQL": {Call: ownCall[T], Effects: size[T]},
		"Update":  {Call: updateCall[T], Effects: size[T]},
		"Edit":    {Call: editCall[T], Effects: size[T]},
		"Late":    {Call: lateCall[T], Effects: size[T]},
	} {
		if only != nil && !slices.Contains(only, name) {
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

func insertCall[T any](ctx context.Context, db *tx.DB[T], key string) (int64, error) {
	v, err := rowsOf(db).Insert(ctx, optimistic.Want{Key: key, Token: key}, map[string]any{"size": 1})
	n, _ := v.Int64()
	return n, err
}

func inserted[T any](ctx context.Context, db *tx.DB[T], key string) (n int, err error) {
	err = db.Conn().QueryRow(ctx, "select count(*) from doc where id = $1", key).Scan(&n)
	return n, err
}

// there makes sure that there is a row to change.
func there[T any](ctx context.Context, db *tx.DB[T], key string) error {
	_, err := db.Conn().Exec(ctx, "insert into doc (id) values ($1) on conflict do nothing", key)
	return err
}

// size says how often the row was changed: by its own count, and by its version.
func size[T any](ctx context.Context, db *tx.DB[T], key string) (n int, err error) {
	var version int
	err = db.Conn().QueryRow(ctx, "select size, version from doc where id = $1", key).Scan(&n, &version)
	if errors.Is(err, tx.ErrNoRows) {
		return 0, nil
	}
	if err == nil && n != version {
		err = errors.New("the version and the row differ")
	}
	return n, err
}

func setCall[T any](ctx context.Context, db *tx.DB[T], key string) (int64, error) {
	if err := there(ctx, db, key); err != nil {
		return 0, err
	}
	v, err := rowsOf(db).Set(ctx, optimistic.Want{Key: key, Version: optimistic.At(0), Token: key}, map[string]any{"size": 1})
	n, _ := v.Int64()
	return n, err
}

func manyCall[T any](ctx context.Context, db *tx.DB[T], key string) (int64, error) {
	if err := there(ctx, db, key); err != nil {
		return 0, err
	}
	want := optimistic.Want{Key: key, Version: optimistic.At(0), Token: key}
	var results []optimistic.Result
	err := db.Do(ctx, func(ctx context.Context, t T) (err error) {
		results, err = rowsOf(db).SetManyTx(ctx, t, []optimistic.Item{
			{Want: want, Set: map[string]any{"size": 1}},
			{Want: optimistic.Want{Key: key + " is missing", Version: optimistic.At(0)}, Set: map[string]any{"size": 1}},
		})
		return err
	})
	if err != nil {
		return 0, err
	}
	n, _ := results[0].Version.Int64()
	return n, results[0].Err
}

// ownCall increments, so that a second effect shows.
func ownCall[T any](ctx context.Context, db *tx.DB[T], key string) (n int64, err error) {
	if err := there(ctx, db, key); err != nil {
		return 0, err
	}
	rows, want := rowsOf(db), optimistic.Want{Key: key, Version: optimistic.At(0), Token: key}
	err = db.Do(ctx, func(ctx context.Context, t T) error {
		affected, err := db.Tx(t).Exec(ctx, "update doc set size = size + 1, op = $3, "+rows.Bump()+" where "+rows.Where("$1", "$2"),
			key, want.Version, key)
		v, err := rows.Affected(ctx, t, want, affected, err)
		n, _ = v.Int64()
		return err
	})
	return n, err
}

// updateCall reads the version afresh each time: the token keeps its retry from a second increment.
func updateCall[T any](ctx context.Context, db *tx.DB[T], key string) (n int64, err error) {
	if err := there(ctx, db, key); err != nil {
		return 0, err
	}
	rows := rowsOf(db)
	err = rows.Update(ctx, key, func(ctx context.Context, t T) error {
		var size int64
		want := optimistic.Want{Key: key, Token: key}
		if err := db.Tx(t).QueryRow(ctx, "select size, version from doc where id = $1", key).Scan(&size, &want.Version); err != nil {
			return err
		}
		v, err := rows.SetTx(ctx, t, want, map[string]any{"size": size + 1})
		n, _ = v.Int64()
		return err
	})
	return n, err
}

// editCall reads with BEGIN and writes with COMMIT.
func editCall[T any](ctx context.Context, db *tx.DB[T], key string) (int64, error) {
	if err := there(ctx, db, key); err != nil {
		return 0, err
	}
	var size int64
	v, err := rowsOf(db).Edit(ctx, optimistic.Want{Key: key, Token: key}, map[string]any{"size": &size}, func(context.Context, T) (map[string]any, error) {
		return map[string]any{"size": size + 1}, nil
	})
	n, _ := v.Int64()
	return n, err
}

// lateCall writes with COMMIT: a retry that is refused as applied is done.
func lateCall[T any](ctx context.Context, db *tx.DB[T], key string) (int64, error) {
	if err := there(ctx, db, key); err != nil {
		return 0, err
	}
	want := optimistic.Want{Key: key, Version: optimistic.At(0), Token: key}
	err := db.Do(ctx, func(ctx context.Context, t T) error {
		_, err := rowsOf(db).SetAtCommit(ctx, t, want, map[string]any{"size": 1})
		return err
	})
	if errors.Is(err, optimistic.ErrApplied) {
		err = nil
	}
	return 1, err
}
