package optimistictest_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/optimistic/optimistictest"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
)

func TestMain(m *testing.M) { testdb.Main(m) }

func TestPgx(t *testing.T) {
	optimistictest.Run(t, func(t testing.TB) optimistictest.Harness[pgx.Tx] {
		pool := newPool(t, testdb.Postgres(t))
		return optimistictest.Harness[pgx.Tx]{DB: pgxtx.New(pool), Begin: func(ctx context.Context) (optimistictest.Foreign[pgx.Tx], error) {
			foreign, err := pool.Begin(ctx)
			if err != nil {
				return optimistictest.Foreign[pgx.Tx]{}, err
			}
			return optimistictest.Foreign[pgx.Tx]{Tx: foreign, Commit: foreign.Commit, Rollback: foreign.Rollback}, nil
		}}
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
