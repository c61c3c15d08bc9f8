package leasetest_test

import (
	"context"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/internal/testdb/pgxdb"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/lease/leasetest"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
)

func TestMain(m *testing.M) { testdb.Main(m) }

func TestPgx(t *testing.T) {
	leasetest.Run(t, func(t testing.TB) lease.FencingStore {
		db := pgxtx.New(pgxdb.Pool(t, testdb.Postgres(t), 8))
		if err := lease.Migrate(t.Context(), db, lease.Names{}); err != nil {
			t.Fatal(err)
		}
		return lease.NewSQL(db, lease.Names{})
	})
}

func TestFaultsPgx(t *testing.T) {
	leasetest.RunFaults(t, func(t testing.TB) (lease.FencingStore, leasetest.Faults) {
		pool := pgxdb.Pool(t, testdb.Postgres(t), 8)
		db := pgxtx.New(pool)
		if err := lease.Migrate(t.Context(), db, lease.Names{}); err != nil {
			t.Fatal(err)
		}
		exec := func(ctx context.Context, query string, args ...any) error {
			_, err := pool.Exec(ctx, query, args...)
			return err
		}
		return lease.NewSQL(db, lease.Names{}), leasetest.Faults{
			Delete: func(ctx context.Context, name string) error {
				return exec(ctx, "delete from lease where name = $1", name)
			},
			Failover: func(ctx context.Context) error {
				return exec(ctx, "truncate lease; alter sequence lease_token restart")
			},
		}
	})
}

func TestGuardsPgx(t *testing.T) { leasetest.RunGuards(t, pgxdb.Open) }

func TestJobsPgx(t *testing.T) { leasetest.RunJobs(t, pgxdb.Open) }
