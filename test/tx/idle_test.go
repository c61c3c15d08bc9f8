package tx_test

import (
	"context"
	"database/sql"
	"testing"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/test/stddb"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/sqltx"
)

// A session that the server has ended since it was idle in the transaction proves that its COMMIT was not read. lib/pq hands on no
// such word, and leaves the outcome open.
func TestIdleForTooLongIsNotApplied(t *testing.T) {
	t.Parallel()
	for driver, want := range map[string]holdfast.Outcome{"pgx": holdfast.NotApplied, "postgres": holdfast.Unknown} {
		pool := stddb.Open(t, driver, testdb.Postgres(t), 8)
		if _, err := pool.ExecContext(t.Context(), "create table effect (n integer)"); err != nil {
			t.Fatal(err)
		}
		err := sqltx.New(pool, tx.PostgreSQL, nil).Do(t.Context(), func(ctx context.Context, own *sql.Tx) error {
			var pid int
			if _, err := own.ExecContext(ctx, "insert into effect values (1)"); err != nil {
				return err
			}
			if err := own.QueryRowContext(ctx, "select pg_backend_pid()").Scan(&pid); err != nil {
				return err
			}
			if _, err := own.ExecContext(ctx, "set local idle_in_transaction_session_timeout = '1ms'"); err != nil {
				return err
			}
			for alive := 1; alive > 0; {
				if err := pool.QueryRowContext(t.Context(), "select count(*) from pg_stat_activity where pid = $1", pid).Scan(&alive); err != nil {
					return err
				}
			}
			return nil
		})
		if holdfast.OutcomeOf(err) != want {
			t.Errorf("%s: got %v, which is %v, want %v", driver, err, holdfast.OutcomeOf(err), want)
		}
		var n int
		if err := pool.QueryRowContext(t.Context(), "select count(*) from effect").Scan(&n); err != nil || n != 0 {
			t.Errorf("%s: %d effects, %v", driver, n, err)
		}
	}
}
