package pgxtx_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
)

// plan runs one statement in each place: with BEGIN, in the closure, in a batch and with COMMIT. Each reads a row.
func plan(db *tx.DB[pgx.Tx], n int) tx.Plan[pgx.Tx] {
	var dest [4]string
	stmt := func(i int) *tx.Stmt {
		return &tx.Stmt{SQL: "select note from entry where n = $1", Args: []any{n}, Dest: []any{&dest[i]}}
	}
	return tx.Plan[pgx.Tx]{
		Lead: func() []*tx.Stmt { return []*tx.Stmt{stmt(0)} },
		Work: func(ctx context.Context, nt pgx.Tx) error {
			if err := nt.QueryRow(ctx, "select note from entry where n = $1", n).Scan(&dest[1]); err != nil {
				return err
			}
			if err := db.Tx(nt).Batch(ctx, stmt(2)); err != nil {
				return err
			}
			return db.Defer(ctx, nt, stmt(3))
		},
	}
}

// Between transactions the server forgets what was prepared, as a pooler's reset makes it.
func TestDiscardAll(t *testing.T) {
	inEachMode(t, func(t *testing.T, pool *pgxpool.Pool, db *tx.DB[pgx.Tx]) {
		exec(t, pool, "insert into entry values (1, 'a')")
		search := schema(t, pool)
		for range 3 {
			if err := db.Run(t.Context(), plan(db, 1)); err != nil {
				t.Fatal(err)
			}
			exec(t, pool, "discard all")
			exec(t, pool, "set search_path to "+search)
		}
	})
}

func schema(t testing.TB, pool *pgxpool.Pool) (name string) {
	t.Helper()
	if err := pool.QueryRow(context.Background(), "select current_schema()").Scan(&name); err != nil {
		t.Fatal(err)
	}
	return name
}

// Between transactions the type of a column changes, so that the plan of a prepared statement is no longer valid.
func TestAlterTable(t *testing.T) {
	inEachMode(t, func(t *testing.T, pool *pgxpool.Pool, db *tx.DB[pgx.Tx]) {
		exec(t, pool, "insert into entry values (1, 'a')")
		for _, kind := range []string{"varchar(10)", "text", "varchar(20)"} {
			if err := db.Run(t.Context(), plan(db, 1)); err != nil {
				t.Fatal(err)
			}
			exec(t, pool, "alter table entry alter note type "+kind)
		}
		if err := db.Run(t.Context(), plan(db, 1)); err != nil {
			t.Fatal(err)
		}
	})
}

// A server that restarts leaves a pool of dead connections behind. They do not surface.
func TestServerRestart(t *testing.T) {
	t.Parallel()
	server := testdb.PostgresServer(t)
	for _, mode := range modes {
		const conns = 20
		pool := open(t, server.URL(), func(c *pgxpool.Config) {
			c.MaxConns = conns
			c.ConnConfig.DefaultQueryExecMode = mode
		})
		fill(t, pool, conns)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if err := server.Restart(ctx); err != nil {
			t.Fatal(err)
		}
		db := pgxtx.New(pool).With(tx.Options{Attempts: 2})
		for range conns {
			if err := db.Do(ctx, func(ctx context.Context, nt pgx.Tx) error {
				_, err := nt.Exec(ctx, "select 1")
				return err
			}); err != nil {
				t.Errorf("%v: %v", mode, err)
			}
		}
		cancel()
		pool.Close()
	}
}

// fill opens all connections of the pool.
func fill(t testing.TB, pool *pgxpool.Pool, conns int) {
	t.Helper()
	var held []*pgxpool.Conn
	for range conns {
		c, err := pool.Acquire(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, c)
	}
	for _, c := range held {
		c.Release()
	}
}

// A server that is down is told from a transaction that failed.
func TestServerDown(t *testing.T) {
	t.Parallel()
	pool := open(t, "postgres://postgres@127.0.0.1:1/postgres?connect_timeout=5")
	runs := 0
	err := pgxtx.New(pool).Do(t.Context(), func(context.Context, pgx.Tx) error {
		runs++
		return nil
	})
	if !errors.Is(err, tx.ErrNotSent) || holdfast.OutcomeOf(err) != holdfast.NotApplied || runs != 0 {
		t.Errorf("ran %d times and got %v, want %v", runs, err, tx.ErrNotSent)
	}
}

// An error must not make a connection forget what it has prepared, nor the server keep what was forgotten.
func TestErrorsKeepTheCache(t *testing.T) {
	t.Parallel()
	pool := open(t, testdb.Postgres(t), func(c *pgxpool.Config) { c.MaxConns = 1 })
	exec(t, pool, "create table entry (n bigint primary key, note text)")
	db := pgxtx.New(pool)
	lead := func(n int) []*tx.Stmt {
		return []*tx.Stmt{{SQL: insertEntry, Args: []any{n}}, {SQL: "select note from entry where n = $1", Args: []any{n}, Dest: []any{new(*string)}}}
	}
	prepared := func() (names string) {
		err := pool.QueryRow(t.Context(), "select coalesce(string_agg(name || ' ' || prepare_time, ',' order by name), '') "+
			"from pg_prepared_statements where name like 'holdfast%'").Scan(&names)
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	run := func(n int) error {
		return db.Run(t.Context(), tx.Plan[pgx.Tx]{
			Lead: func() []*tx.Stmt { return lead(n) },
			Work: func(context.Context, pgx.Tx) error { return nil },
		})
	}
	if err := run(1); err != nil {
		t.Fatal(err)
	}
	before := prepared()
	for range 3 {
		if err := run(1); db.Classify(err) != tx.Unique {
			t.Errorf("got %v, want a unique violation", err)
		}
	}
	if err := run(2); err != nil {
		t.Fatal(err)
	}
	if after := prepared(); after != before || before == "" {
		t.Errorf("prepared %q before the errors and %q after them", before, after)
	}
}

// A connection prepares no more statements than the pool's capacity, and runs the rest without.
func TestCacheCapacity(t *testing.T) {
	t.Parallel()
	pool := open(t, testdb.Postgres(t), func(c *pgxpool.Config) {
		c.MaxConns = 1
		c.ConnConfig.StatementCacheCapacity = 3
	})
	db := pgxtx.New(pool)
	for range 2 {
		for i := range 10 {
			var got int
			err := db.Run(t.Context(), tx.Plan[pgx.Tx]{
				Lead: func() []*tx.Stmt {
					return []*tx.Stmt{{SQL: fmt.Sprintf("select $1::int + %d", i), Args: []any{1}, Dest: []any{&got}}}
				},
				Work: func(context.Context, pgx.Tx) error { return nil },
			})
			if err != nil || got != i+1 {
				t.Fatalf("got %d, %v, want %d", got, err, i+1)
			}
		}
	}
	var n int
	if err := pool.QueryRow(t.Context(), "select count(*) from pg_prepared_statements where name like 'holdfast%'").Scan(&n); err != nil || n != 3 {
		t.Errorf("%d statements are prepared, %v, want 3", n, err)
	}
}
