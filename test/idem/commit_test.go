package idem_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/test/stddb"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/sqltx"
)

// A connection that dies at the commit leaves the work and its answer, or neither, and one effect in the end. It must not
// be taken for a failure when the server has committed, nor for success when it has not.
func TestPostgresConnectionDiesAtTheCommit(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"pgx", "postgres"} {
		url := testdb.Postgres(t)
		proxy, err := wire.Start(url, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = proxy.Close() })
		pool := stddb.Open(t, driver, proxy.URL(), 8)
		db := sqltx.New(pool, tx.PostgreSQL, nil)
		if err := idem.Migrate(t.Context(), db, idem.Names{}); err != nil {
			t.Fatal(err)
		}
		if _, err := pool.ExecContext(t.Context(), "create table effect (name text)"); err != nil {
			t.Fatal(err)
		}
		for i, fault := range []func(wire.Match) *wire.Hook{proxy.CutReplyTo, proxy.CutBefore} {
			name, runs := fmt.Sprint(driver, " ", i), 0
			apply := func(ctx context.Context, t *sql.Tx) error {
				runs++
				_, err := t.ExecContext(ctx, "insert into effect values ($1)", name)
				return err
			}
			cut := fault(wire.Runs("commit"))
			key := idem.Key{Scope: "s", Name: "n", Value: name}
			res, err := idem.Do(t.Context(), idem.New(db, nil), key, func(ctx context.Context, t *sql.Tx) (int, error) { return runs, apply(ctx, t) })
			if err != nil || res.Replayed || runs != i+1 || cut.Hits() != 1 {
				t.Errorf("%s: got %+v, %v, %d runs, %d cuts", name, res, err, runs, cut.Hits())
			}
			runs, cut = 0, fault(wire.Runs("commit"))
			handled, err := idem.NewInbox(db, "c", nil).Do(t.Context(), name, apply)
			if err != nil || !handled || runs != i+1 || cut.Hits() != 1 {
				t.Errorf("%s: handled %v, %v, %d runs, %d cuts", name, handled, err, runs, cut.Hits())
			}
			var effects int
			if err := pool.QueryRowContext(t.Context(), "select count(*) from effect where name = $1", name).Scan(&effects); err != nil || effects != 2 {
				t.Errorf("%s: %d effects, want one of the key and one of the message: %v", name, effects, err)
			}
		}
	}
}
