package pgxtx_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/wire/wiretest"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
)

func lookup(query string, args []any, dest ...any) *tx.Stmt {
	return &tx.Stmt{SQL: query, Args: args, Dest: dest}
}

// The second of the two is sent before the server has told what the rows of the first look like.
func TestNewStatementTwiceInOnePipeline(t *testing.T) {
	for _, mode := range wiretest.Modes {
		r := wiretest.Open(t, mode)
		db := pgxtx.New(r.Pool)
		for range 3 {
			var got [3]int
			lead := func() []*tx.Stmt {
				return []*tx.Stmt{
					lookup("select $1::int + 1", []any{1}, &got[0]), lookup("select $1::int + 1", []any{2}, &got[1]),
					lookup("select $1::int + 1", []any{3}, &got[2]),
				}
			}
			err := db.Run(t.Context(), tx.Plan[pgx.Tx]{Lead: lead, Work: func(context.Context, pgx.Tx) error { return nil }})
			if err != nil || got != [3]int{2, 3, 4} {
				t.Errorf("%v: got %v, error %v", mode, got, err)
			}
		}
	}
}

// A statement whose rows change is parsed anew, in a fresh transaction.
func TestRowsThatChangeTheirType(t *testing.T) {
	for _, mode := range wiretest.Modes {
		r := wiretest.Open(t, mode)
		r.Exec("create table thing (a int); insert into thing values (7)")
		db := pgxtx.New(r.Pool)
		read := func(dest ...any) {
			t.Helper()
			lead := func() []*tx.Stmt { return []*tx.Stmt{lookup("select * from thing where a = $1", []any{7}, dest...)} }
			err := db.Run(t.Context(), tx.Plan[pgx.Tx]{Lead: lead, Work: func(context.Context, pgx.Tx) error { return nil }})
			if err != nil {
				t.Errorf("%v: %v", mode, err)
			}
		}
		var a, b int
		read(&a)
		read(&a)
		r.Exec("alter table thing add column b int default 8")
		read(&a, &b)
		if a != 7 || b != 8 {
			t.Errorf("%v: got %d and %d", mode, a, b)
		}
	}
}

// A reset of the session between two transactions is found out by BEGIN, before anything has begun. It costs no attempt.
func TestResetCostsNoAttempt(t *testing.T) {
	t.Parallel()
	pool := onePool(t)
	db := pgxtx.New(pool).With(tx.Options{Attempts: 1})
	for range 3 {
		if err := db.Run(t.Context(), tx.Plan[pgx.Tx]{
			Lead: func() []*tx.Stmt { return []*tx.Stmt{lookup("select $1::int", []any{1}, new(int))} },
			Work: func(context.Context, pgx.Tx) error { return nil },
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := pool.Exec(t.Context(), "deallocate all", pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
	}
}

// A COMMIT that goes alone does not depend on what was prepared.
func TestClosureMayDeallocate(t *testing.T) {
	t.Parallel()
	db := pgxtx.New(onePool(t)).With(tx.Options{Attempts: 1})
	for _, query := range []string{"select 1", "deallocate all", "select 1", "deallocate all"} {
		if err := db.Do(t.Context(), func(ctx context.Context, nt pgx.Tx) error {
			_, err := nt.Exec(ctx, query, pgx.QueryExecModeSimpleProtocol)
			return err
		}); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
	}
}
