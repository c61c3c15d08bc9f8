package pgxtx_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
)

// A session that the server has ended since it was idle in the transaction proves that its COMMIT was not read.
func TestIdleForTooLongIsNotApplied(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), testdb.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if _, err := pool.Exec(t.Context(), "create table effect (n integer)"); err != nil {
		t.Fatal(err)
	}
	db := pgxtx.New(pool)
	for _, tail := range []bool{false, true} {
		err := db.Do(t.Context(), func(ctx context.Context, own pgx.Tx) error {
			if _, err := own.Exec(ctx, "insert into effect values (1)"); err != nil {
				return err
			}
			if tail {
				if err := db.Defer(ctx, own, &tx.Stmt{SQL: "insert into effect values (2)"}); err != nil {
					return err
				}
			}
			pid := own.Conn().PgConn().PID()
			if _, err := own.Exec(ctx, "set local idle_in_transaction_session_timeout = '1ms'"); err != nil {
				return err
			}
			for alive := 1; alive > 0; {
				if err := pool.QueryRow(t.Context(), "select count(*) from pg_stat_activity where pid = $1", pid).Scan(&alive); err != nil {
					return err
				}
			}
			return nil
		})
		if holdfast.OutcomeOf(err) != holdfast.NotApplied {
			t.Errorf("got %v, which is %v", err, holdfast.OutcomeOf(err))
		}
	}
	var n int
	if err := pool.QueryRow(t.Context(), "select count(*) from effect").Scan(&n); err != nil || n != 0 {
		t.Errorf("%d effects, %v", n, err)
	}
}
