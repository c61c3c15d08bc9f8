package pgxtx_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
)

func onePool(t *testing.T) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(testdb.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 1
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// A statement that parses and then fails to run, as on a server that became read-only, must not be parsed anew each time:
// the server keeps all of them.
func TestFailingStatementsDoNotPileUp(t *testing.T) {
	t.Parallel()
	pool := onePool(t)
	db := pgxtx.New(pool)
	for range 50 {
		err := db.Run(t.Context(), tx.Plan[pgx.Tx]{
			Lead: func() []*tx.Stmt { return []*tx.Stmt{{SQL: "select 1 / $1::int", Args: []any{0}}} },
			Work: func(context.Context, pgx.Tx) error { return nil },
		})
		if err == nil {
			t.Fatal("no error")
		}
	}
	var n int
	err := pool.QueryRow(t.Context(), "select count(*) from pg_prepared_statements where name like 'holdfast%'").Scan(&n)
	if err != nil || n != 2 { // and BEGIN
		t.Fatalf("%d prepared statements, %v", n, err)
	}
}

// What is hooked inside a savepoint that the closure made goes with it.
func TestHooksGoWithASavepointOfTheClosure(t *testing.T) {
	t.Parallel()
	db, hooks := pgxtx.New(onePool(t)), 0
	err := db.Do(t.Context(), func(ctx context.Context, outer pgx.Tx) error {
		sp, err := outer.Begin(ctx)
		if err != nil {
			return err
		}
		_ = db.Nested(ctx, sp, func(ctx context.Context, _ pgx.Tx) error {
			if err := tx.AfterCommit(ctx, func(context.Context) { hooks++ }); err != nil {
				t.Error(err)
			}
			return context.Canceled
		})
		return sp.Commit(ctx)
	})
	if err != nil || hooks != 0 {
		t.Fatalf("%d hooks, %v", hooks, err)
	}
}
