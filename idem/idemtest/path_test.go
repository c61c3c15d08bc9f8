package idemtest_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/internal/testdb/pgxdb"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
)

// A closure that changes the search path, as with a schema for each tenant, must not put the answer beside the claim: the
// key would be free, and the work done again.
func TestClosureThatChangesTheSearchPath(t *testing.T) {
	t.Parallel()
	pool := pgxdb.Pool(t, testdb.Postgres(t), 8)
	db := pgxtx.New(pool)
	var here string
	if err := pool.QueryRow(t.Context(), "select current_schema()").Scan(&here); err != nil {
		t.Fatal(err)
	}
	other := here + "_other"
	t.Cleanup(func() { _, _ = pool.Exec(context.Background(), "drop schema if exists "+other+" cascade") })
	for _, schema := range []string{here, other} {
		if err := idem.Migrate(t.Context(), db, idem.Names{Schema: schema}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := pool.Exec(t.Context(), "create table effect (name text)"); err != nil {
		t.Fatal(err)
	}
	for _, level := range []tx.Isolation{tx.ReadCommitted, tx.RepeatableRead} {
		keys := idem.New(db.With(tx.Options{Isolation: level}), &idem.Options{AllowReuse: true})
		for _, what := range []string{"new", "expired", "joined"} {
			runs := 0
			work := func(ctx context.Context, t pgx.Tx) (int, error) {
				runs++
				_, err := t.Exec(ctx, "insert into "+here+".effect values ('x'); set local search_path = "+other)
				return 1, err
			}
			key := idem.Key{Scope: "s", Name: "n", Value: what + level.String()}
			if what == "expired" {
				if _, err := idem.Do(t.Context(), keys, key, func(context.Context, pgx.Tx) (int, error) { return 1, nil }); err != nil {
					t.Fatal(err)
				}
				if _, err := pool.Exec(t.Context(), "update idem_key set expires_at = created_at"); err != nil {
					t.Fatal(err)
				}
			}
			_, err := idem.Do(t.Context(), keys, key, work)
			if what == "joined" {
				err = db.With(tx.Options{Isolation: level}).Do(t.Context(), func(ctx context.Context, t pgx.Tx) error {
					runs = 0
					_, err := idem.DoTx(ctx, keys, t, key, work)
					return err
				})
			}
			if err == nil || !strings.Contains(err.Error(), "Options.Schema") || runs != 1 || holdfast.OutcomeOf(err) != holdfast.NotApplied {
				t.Fatalf("%s, %v: got %v after %d runs", what, level, err, runs)
			}
			var effects, rows int
			query := `select (select count(*) from effect),
				(select count(*) from idem_key where expires_at > now()) + (select count(*) from ` + other + ".idem_key)"
			if err := pool.QueryRow(t.Context(), query).Scan(&effects, &rows); err != nil || effects != 0 || rows != 0 {
				t.Fatalf("%s, %v: %d effects, %d rows, %v", what, level, effects, rows, err)
			}
		}
	}
	keys, runs := idem.New(db, &idem.Options{Schema: here}), 0
	for i := range 2 {
		res, err := idem.Do(t.Context(), keys, idem.Key{Scope: "s", Name: "n", Value: "named"}, func(ctx context.Context, t pgx.Tx) (int, error) {
			runs++
			_, err := t.Exec(ctx, "set local search_path = "+other)
			return 1, err
		})
		if err != nil || res.Replayed != (i == 1) || runs != 1 {
			t.Fatalf("with Options.Schema: got %+v, %v", res, err)
		}
	}
}
