package countertest_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/counter/countertest"
	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
)

func TestMain(m *testing.M) { testdb.Main(m) }

func TestPgx(t *testing.T) {
	countertest.Run(t, func(t testing.TB) countertest.Harness[pgx.Tx] {
		pool := newPool(t, testdb.Postgres(t))
		return countertest.Harness[pgx.Tx]{DB: pgxtx.New(pool), Begin: func(ctx context.Context) (countertest.Foreign[pgx.Tx], error) {
			foreign, err := pool.Begin(ctx)
			if err != nil {
				return countertest.Foreign[pgx.Tx]{}, err
			}
			return countertest.Foreign[pgx.Tx]{Tx: foreign, Commit: foreign.Commit, Rollback: foreign.Rollback}, nil
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
