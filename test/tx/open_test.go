package tx_test

import (
	"context"
	"database/sql"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/test/stddb"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
	"github.com/holdfast-go/holdfast/tx/sqltx"
)

// A store is an open PostgreSQL database with a table of entries.
type store[T any] struct {
	*tx.DB[T]
	inUse func() int
}

// An opener opens a store with a pool of conns connections. The table is there already.
type opener[T any] func(t testing.TB, url string, conns int) store[T]

func openPgx(mode pgx.QueryExecMode) opener[pgx.Tx] {
	return func(t testing.TB, url string, conns int) store[pgx.Tx] {
		t.Helper()
		pool := pgxPool(t, url, conns, mode)
		return store[pgx.Tx]{pgxtx.New(pool), func() int { return int(pool.Stat().AcquiredConns()) }}
	}
}

func pgxPool(t testing.TB, url string, conns int, mode pgx.QueryExecMode) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = int32(conns)
	config.ConnConfig.DefaultQueryExecMode = mode
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func openSQL(driver string) opener[*sql.Tx] {
	return func(t testing.TB, url string, conns int) store[*sql.Tx] {
		t.Helper()
		pool := stddb.Open(t, driver, url, conns)
		return store[*sql.Tx]{sqltx.New(pool, tx.PostgreSQL, nil), func() int { return pool.Stats().InUse }}
	}
}

// onPostgres runs a test that is generic in the transaction type with each way to PostgreSQL.
func onPostgres(t *testing.T, native func(*testing.T, opener[pgx.Tx]), standard func(*testing.T, opener[*sql.Tx])) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		t.Run("pgxtx "+mode.String(), func(t *testing.T) { t.Parallel(); native(t, openPgx(mode)) })
	}
	for _, driver := range []string{"pgx", "postgres"} {
		t.Run("sqltx "+driver, func(t *testing.T) { t.Parallel(); standard(t, openSQL(driver)) })
	}
}

// table makes the table of entries that tests count.
func table[T any](t testing.TB, s store[T]) {
	t.Helper()
	_, err := s.Conn().Exec(context.Background(), "create table entry (id bigint generated always as identity primary key, n bigint)")
	if err != nil {
		t.Fatal(err)
	}
}

const insertEntry = "insert into entry (n) values ($1)"

// entries counts the rows with the number n.
func entries[T any](t testing.TB, s store[T], n int) (count int) {
	t.Helper()
	err := s.Conn().QueryRow(context.Background(), "select count(*) from entry where n = $1", n).Scan(&count)
	if err != nil {
		t.Fatal(err)
	}
	return count
}

func postgres(t testing.TB) string { return testdb.Postgres(t) }

func postgresServer(t testing.TB) *testdb.Server { return testdb.PostgresServer(t) }

func itoa(n int32) string { return strconv.Itoa(int(n)) }
