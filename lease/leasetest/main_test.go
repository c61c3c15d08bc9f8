package leasetest_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/lease/leasetest"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
)

func TestMain(m *testing.M) { testdb.Main(m) }

func TestPgx(t *testing.T) {
	leasetest.Run(t, func(t testing.TB) lease.FencingStore {
		db := pgxtx.New(newPool(t, testdb.Postgres(t)))
		if err := lease.Migrate(t.Context(), db, lease.Names{}); err != nil {
			t.Fatal(err)
		}
		return lease.NewSQL(db, lease.Names{})
	})
}

func TestFaultsPgx(t *testing.T) {
	leasetest.RunFaults(t, func(t testing.TB) (lease.FencingStore, leasetest.Faults) {
		pool := newPool(t, testdb.Postgres(t))
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

func newPool(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 8
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func TestGuardsPgx(t *testing.T) {
	leasetest.RunGuards(t, func(t testing.TB) leasetest.Harness[pgx.Tx] { return pgxHarness(t) })
}

func pgxHarness(t testing.TB) leasetest.Harness[pgx.Tx] {
	t.Helper()
	pool := newPool(t, testdb.Postgres(t))
	return leasetest.Harness[pgx.Tx]{DB: pgxtx.New(pool), Begin: func(ctx context.Context) (leasetest.Foreign[pgx.Tx], error) {
		foreign, err := pool.Begin(ctx)
		if err != nil {
			return leasetest.Foreign[pgx.Tx]{}, err
		}
		return leasetest.Foreign[pgx.Tx]{Tx: foreign, Commit: foreign.Commit, Rollback: foreign.Rollback}, nil
	}}
}

func TestJobsPgx(t *testing.T) {
	leasetest.RunJobs(t, func(t testing.TB) leasetest.Harness[pgx.Tx] { return pgxHarness(t) })
}
