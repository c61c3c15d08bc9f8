package lease_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/test/stddb"
	"github.com/holdfast-go/holdfast/tx"
)

// A fence guards nothing in a database that its lease is not in. Where the database is of another kind, it says so.
func TestAFenceInAnotherDatabase(t *testing.T) {
	t.Parallel()
	here, there, elsewhere := stddb.Postgres("pgx")(t).DB, stddb.Postgres("pgx")(t).DB, stddb.SQLite("sqlite", stddb.WAL)(t).DB
	for _, db := range []*tx.DB[*sql.Tx]{here, there, elsewhere} {
		if err := lease.Migrate(t.Context(), db, lease.Names{}); err != nil {
			t.Fatal(err)
		}
	}
	h, err := lease.New(lease.NewSQL(here, lease.Names{}), nil).Acquire(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		db   *tx.DB[*sql.Tx]
		want error
	}{{here, nil}, {there, lease.ErrFenced}, {elsewhere, lease.ErrNoGuard}} {
		for verb, err := range map[string]error{
			"Do": lease.Do(t.Context(), c.db, h, func(context.Context, *sql.Tx) error { return nil }),
			"Guard": c.db.Do(t.Context(), func(ctx context.Context, own *sql.Tx) error {
				return h.Fence().Guard(ctx, c.db.Tx(own))
			}),
		} {
			if !errors.Is(err, c.want) {
				t.Errorf("%s in %s: got %v, want %v", verb, c.db.Dialect().Name, err, c.want)
			}
		}
	}
}
