package pessimistictest_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/pessimistic/pessimistictest"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
)

func TestMain(m *testing.M) { testdb.Main(m) }

func TestPgx(t *testing.T) {
	pessimistictest.Run(t, func(t testing.TB) pessimistictest.Harness[pgx.Tx] {
		pool := newPool(t, testdb.Postgres(t))
		return pessimistictest.Harness[pgx.Tx]{DB: pgxtx.New(pool), Begin: func(ctx context.Context) (pessimistictest.Foreign[pgx.Tx], error) {
			foreign, err := pool.Begin(ctx)
			if err != nil {
				return pessimistictest.Foreign[pgx.Tx]{}, err
			}
			return pessimistictest.Foreign[pgx.Tx]{Tx: foreign, Commit: foreign.Commit, Rollback: foreign.Rollback}, nil
		}}
	})
}

func newPool(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 12
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}
