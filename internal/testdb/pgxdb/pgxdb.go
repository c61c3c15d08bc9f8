// Package pgxdb opens the PostgreSQL of package testdb through pgx, for the conformance suites of the patterns.
package pgxdb

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
	"github.com/holdfast-go/holdfast/tx/txtest"
)

// Open returns a database with a schema of its own.
func Open(t testing.TB) txtest.Backend[pgx.Tx] {
	t.Helper()
	pool := Pool(t, testdb.Postgres(t), 12)
	return txtest.Backend[pgx.Tx]{DB: pgxtx.New(pool), Begin: func(ctx context.Context) (txtest.Foreign[pgx.Tx], error) {
		foreign, err := pool.Begin(ctx)
		if err != nil {
			return txtest.Foreign[pgx.Tx]{}, err
		}
		return txtest.Foreign[pgx.Tx]{Tx: foreign, Commit: foreign.Commit, Rollback: foreign.Rollback}, nil
	}}
}

// Pool returns a pool of at most conns connections, which is closed in the end.
func Pool(t testing.TB, url string, conns int32) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = conns
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}
