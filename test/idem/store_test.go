package idem_test

import (
	"context"
	"database/sql"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
	"github.com/holdfast-go/holdfast/tx/sqltx"
	"github.com/holdfast-go/holdfast/tx/txtest"
)

// A store is a database of a test's own through one adapter, migrated, with a table of effects.
type store[T any] struct {
	*tx.DB[T]
	begin func(ctx context.Context, level tx.Isolation) (txtest.Foreign[T], error)
	inUse func() int // connections that are taken from the pool
	close func()     // may be called twice
}

// An opener opens a store at an address.
type opener[T any] func(t testing.TB, address string) store[T]

var sqlLevels = map[tx.Isolation]sql.IsolationLevel{
	tx.ReadCommitted: sql.LevelReadCommitted, tx.RepeatableRead: sql.LevelRepeatableRead, tx.Serializable: sql.LevelSerializable,
}

func openPgx(t testing.TB, address string) store[pgx.Tx] {
	t.Helper()
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = conns
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		closed := make(chan struct{})
		go func() { pool.Close(); close(closed) }()
		select {
		case <-closed:
		case <-time.After(10 * time.Second): // it waits for a connection that was left behind, of which the test has told
		}
	})
	return store[pgx.Tx]{
		DB: pgxtx.New(pool),
		begin: func(ctx context.Context, level tx.Isolation) (txtest.Foreign[pgx.Tx], error) {
			f, err := pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.TxIsoLevel(level.String())})
			if err != nil {
				return txtest.Foreign[pgx.Tx]{}, err
			}
			return txtest.Foreign[pgx.Tx]{Tx: f, Commit: f.Commit, Rollback: f.Rollback}, nil
		},
		inUse: func() int { return int(pool.Stat().AcquiredConns()) },
		close: pool.Close,
	}
}

func openSQL(driver string, dialect *tx.Dialect) opener[*sql.Tx] {
	return func(t testing.TB, address string) store[*sql.Tx] {
		t.Helper()
		pool, err := sql.Open(driver, address)
		if err != nil {
			t.Fatal(err)
		}
		pool.SetMaxOpenConns(conns)
		pool.SetMaxIdleConns(conns)
		t.Cleanup(func() { _ = pool.Close() })
		return store[*sql.Tx]{
			DB: sqltx.New(pool, dialect, nil),
			begin: func(ctx context.Context, level tx.Isolation) (txtest.Foreign[*sql.Tx], error) {
				f, err := pool.BeginTx(ctx, &sql.TxOptions{Isolation: sqlLevels[level]})
				if err != nil {
					return txtest.Foreign[*sql.Tx]{}, err
				}
				return txtest.Foreign[*sql.Tx]{
					Tx:       f,
					Commit:   func(context.Context) error { return f.Commit() },
					Rollback: func(context.Context) error { return f.Rollback() },
				}, nil
			},
			inUse: func() int { return pool.Stats().InUse },
			close: func() { _ = pool.Close() },
		}
	}
}

// conns is the size of each pool.
const conns = 12

// prepare makes the tables in a store that was just opened.
func prepare[T any](t testing.TB, s store[T]) {
	t.Helper()
	if err := idem.Migrate(context.Background(), s.DB, idem.Names{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Conn().Exec(context.Background(), "create table effect (name text not null, value text not null)"); err != nil {
		t.Fatal(err)
	}
}

// apply writes the effect of an operation.
func (s store[T]) apply(ctx context.Context, t T, name, value string) error {
	_, err := s.Tx(t).Exec(ctx, "insert into effect (name, value) values ($1, $2)", name, value)
	return err
}

// sqliteFile returns the address of a SQLite database of the test's own.
func sqliteFile(t testing.TB) string {
	t.Helper()
	return "file:" + filepath.Join(t.TempDir(), "test.db") + "?_pragma=journal_mode(wal)"
}

// postgresNamed returns the address of a PostgreSQL schema of the test's own whose sessions carry name, so that they can
// be told from those of other tests.
func postgresNamed(t testing.TB, name string) string {
	t.Helper()
	return withName(t, testdb.Postgres(t), name)
}

func withName(t testing.TB, address, name string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("application_name", name)
	u.RawQuery = q.Encode()
	return u.String()
}
