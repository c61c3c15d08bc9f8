package pessimistic_test

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/internal/testdb/pgxdb"
	"github.com/holdfast-go/holdfast/pessimistic"
	"github.com/holdfast-go/holdfast/prove"
	"github.com/holdfast-go/holdfast/test/stddb"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
	"github.com/holdfast-go/holdfast/tx/sqltx"
)

// The lock makes a check before an act safe: whoever holds the account's row looks whether the operation was done, and does
// it. A key gives each operation a pair of accounts of its own.

// quick are for commits whose reply never comes.
var quick = tx.Options{CommitTimeout: time.Second}

func TestProvePgx(t *testing.T) {
	t.Parallel()
	pool := pgxdb.Pool(t, testdb.Postgres(t), 8)
	db := pgxtx.New(pool)
	prepare(t, db)
	proveAll(t, prove.Through(prove.Driver(db), func(db *tx.DB[pgx.Tx]) *tx.DB[pgx.Tx] { return db.With(quick) }))
}

func TestProvePostgresSQL(t *testing.T) { proveSQL(t, "pgx", testdb.Postgres(t), tx.PostgreSQL) }

func TestProveSQLite(t *testing.T) {
	const params = "?_pragma=journal_mode(wal)&_pragma=synchronous(off)&_pragma=busy_timeout(5000)&_txlock=immediate"
	proveSQL(t, "sqlite", "file:"+filepath.Join(t.TempDir(), "a.db")+params, tx.SQLite)
}

func proveSQL(t *testing.T, driver, dsn string, dialect *tx.Dialect) {
	t.Helper()
	pool := stddb.Open(t, driver, dsn, 8)
	prepare(t, sqltx.New(pool, dialect, nil))
	proveAll(t, prove.Through(prove.SQL(driver, dsn), func(pool *sql.DB) *tx.DB[*sql.Tx] {
		return sqltx.New(pool, dialect, nil).With(quick)
	}))
}

func prepare[T any](t *testing.T, db *tx.DB[T]) {
	t.Helper()
	for _, table := range []string{
		"create table account (id bigint primary key, balance bigint not null)",
		"create table ledger (account bigint not null)",
		"create table job (id bigint primary key, done boolean not null)",
	} {
		if _, err := db.Conn().Exec(t.Context(), table); err != nil {
			t.Fatal(err)
		}
	}
}

func proveAll[T any](t *testing.T, db *prove.Database[*tx.DB[T]]) {
	for name, h := range map[string]prove.Handler[*tx.DB[T], int64]{
		"Do":   {Call: transferCall[T], Effects: transferEffects[T]},
		"Work": {Call: workCall[T], Effects: transferEffects[T]},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			prove.Twice(t, db, h)
			prove.Together(t, db, h)
			prove.CrashEverywhere(t, db, h)
		})
	}
}

// pair returns the accounts of a key. Both proofs use other keys.
func pair(key string) (from, to int64) {
	sum := sha256.Sum256([]byte(key))
	from = int64(binary.BigEndian.Uint64(sum[:8]) >> 2 << 1)
	return from, from + 1
}

var accounts = pessimistic.Table{Name: "account"}

// transferCall moves 1 from the first account of the pair to the second, once.
func transferCall[T any](ctx context.Context, db *tx.DB[T], key string) (int64, error) {
	from, to := pair(key)
	const open = "insert into account (id, balance) values ($1, 100), ($2, 100) on conflict do nothing"
	if _, err := db.Conn().Exec(ctx, open, from, to); err != nil {
		return 0, err
	}
	var id, balance int64
	balances := map[int64]int64{}
	both := accounts.Rows(to, from).Read([]string{"id", "balance"}, []any{&id, &balance}, func(int) error {
		balances[id] = balance
		return nil
	})
	err := pessimistic.New(db, nil).Do(ctx, []pessimistic.Rows{both}, func(ctx context.Context, t T) error {
		if balances[from] < 100 {
			return nil // done before
		}
		return db.Defer(ctx, t,
			&tx.Stmt{SQL: "update account set balance = $2 where id = $1", Args: []any{from, balances[from] - 1}},
			&tx.Stmt{SQL: "update account set balance = $2 where id = $1", Args: []any{to, balances[to] + 1}},
			&tx.Stmt{SQL: "insert into ledger (account) values ($1)", Args: []any{from}})
	})
	return 1, err
}

// transferEffects counts in the ledger, and compares the balances with it.
func transferEffects[T any](ctx context.Context, db *tx.DB[T], key string) (n int, err error) {
	from, to := pair(key)
	if err := db.Conn().QueryRow(ctx, "select count(*) from ledger where account = $1", from).Scan(&n); err != nil {
		return 0, err
	}
	var wrong int
	err = db.Conn().QueryRow(ctx, "select count(*) from account where id = $1 and balance <> 100 - $3 or id = $2 and balance <> 100 + $3",
		from, to, n).Scan(&wrong)
	if err == nil && wrong > 0 {
		err = fmt.Errorf("%d balances do not match the ledger", wrong)
	}
	return n, err
}

// workCall is a worker for the one job of the key.
func workCall[T any](ctx context.Context, db *tx.DB[T], key string) (int64, error) {
	from, _ := pair(key)
	if _, err := db.Conn().Exec(ctx, "insert into job (id, done) values ($1, false) on conflict do nothing", from); err != nil {
		return 0, err
	}
	queue := pessimistic.Queue{Table: pessimistic.Table{Name: "job"}, Where: "id = $1 and not done", Args: []any{from}}
	n, err := pessimistic.New(db, nil).Work(ctx, queue, func(ctx context.Context, t T) error {
		if _, err := db.Tx(t).Exec(ctx, "insert into ledger (account) values ($1)", from); err != nil {
			return err
		}
		return db.Defer(ctx, t, &tx.Stmt{SQL: "update job set done = true where id = $1", Args: []any{from}})
	})
	if err != nil || n == 1 {
		return 1, err
	}
	var done bool
	if err := db.Conn().QueryRow(ctx, "select done from job where id = $1", from).Scan(&done); err != nil {
		return 0, err
	}
	if !done {
		return 0, errElsewhere
	}
	return 1, nil
}

var errElsewhere = errors.New("another worker has the job")
