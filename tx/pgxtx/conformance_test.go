package pgxtx_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
	"github.com/holdfast-go/holdfast/tx/txtest"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// modes are all of pgx's ways to run a statement.
var modes = []pgx.QueryExecMode{
	pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
	pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
}

func TestConformance(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.String(), func(t *testing.T) {
			txtest.Run(t, txtest.Harness[pgx.Tx]{Open: func(t *testing.T, s txtest.Setup) txtest.Database[pgx.Tx] {
				pool := open(t, testdb.Postgres(t), func(c *pgxpool.Config) {
					c.MaxConns = int32(s.Conns)
					c.ConnConfig.DefaultQueryExecMode = mode
				})
				return txtest.Database[pgx.Tx]{
					DB:       pgxtx.New(pool),
					Twin:     pgxtx.New(pool),
					Begin:    pool.Begin,
					Commit:   func(ctx context.Context, t pgx.Tx) error { return t.Commit(ctx) },
					Rollback: func(ctx context.Context, t pgx.Tx) error { return t.Rollback(ctx) },
					InUse:    func() int { return int(pool.Stat().AcquiredConns()) },
				}
			}})
		})
	}
}

// open opens a pool on the database at url.
func open(t testing.TB, url string, configure ...func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range configure {
		c(config)
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !t.Failed() { // or it would wait for ever for a connection that leaked
			pool.Close()
		}
	})
	return pool
}
