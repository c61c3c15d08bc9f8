package pgxtx_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/internal/wire/wiretest"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
)

// business are the statements of a transaction of n = 2.
var business = []string{"insert into effect (name) values ($1)", "update effect set name = $1 where name = 'nobody'"}

func run(ctx context.Context, t pgx.Tx) error {
	for _, sql := range business {
		if _, err := t.Exec(ctx, sql, "somebody"); err != nil {
			return err
		}
	}
	return nil
}

// trips are warm and cold, in the order of wiretest.Modes.
type trips [5][2]int

// bare is what a transaction of two statements costs with pgx alone: n+2 warm. Cold it is 2n+2 in the modes that ask the
// server about a statement first.
var bare = trips{{4, 6}, {4, 4}, {4, 6}, {6, 6}, {4, 4}}

// plus adds to the mode without pipelines, in which each statement that rides along is a trip of its own.
func (c trips) plus(n int) trips {
	c[4][0] += n
	c[4][1] += n
	return c
}

func TestRoundTrips(t *testing.T) {
	fence := errors.New("the fence matched nothing")
	lead := func() []*tx.Stmt {
		return []*tx.Stmt{
			{SQL: "select count(*) from effect where name = $1", Args: []any{"a"}, Dest: []any{new(int)}},
			{SQL: "select pg_try_advisory_xact_lock($1)", Args: []any{1}},
		}
	}
	tail := func() []*tx.Stmt {
		return []*tx.Stmt{{SQL: "insert into effect (name) values ($1)", Args: []any{"b"}}, {SQL: "delete from effect where name = $1", Args: []any{"c"}}}
	}
	must := func() *tx.Stmt {
		return &tx.Stmt{SQL: "insert into effect (name) values ($1) returning 1", Args: []any{"d"}, MustAffect: fence}
	}

	for _, pin := range []struct {
		name string
		want trips
		call func(ctx context.Context, r *wiretest.Rig, db *tx.DB[pgx.Tx]) error
	}{
		{"pgx alone", bare, func(ctx context.Context, r *wiretest.Rig, _ *tx.DB[pgx.Tx]) error {
			return pgx.BeginFunc(ctx, r.Pool, func(t pgx.Tx) error { return run(ctx, t) })
		}},
		{"Do", bare, func(ctx context.Context, _ *wiretest.Rig, db *tx.DB[pgx.Tx]) error {
			return db.Do(ctx, run)
		}},
		{"Do with options", bare, func(ctx context.Context, _ *wiretest.Rig, db *tx.DB[pgx.Tx]) error {
			return db.With(tx.Options{Isolation: tx.Serializable}).Do(ctx, run)
		}},
		{"Do that can ask what became of its commit", bare.plus(1), func(ctx context.Context, _ *wiretest.Rig, db *tx.DB[pgx.Tx]) error {
			return db.With(tx.Options{ResolveCommit: true}).Do(ctx, run)
		}},
		{"two statements with BEGIN", bare.plus(2), func(ctx context.Context, _ *wiretest.Rig, db *tx.DB[pgx.Tx]) error {
			return db.Run(ctx, tx.Plan[pgx.Tx]{Lead: lead, Work: run})
		}},
		{"two statements with COMMIT", bare.plus(2), func(ctx context.Context, _ *wiretest.Rig, db *tx.DB[pgx.Tx]) error {
			return db.Do(ctx, func(ctx context.Context, t pgx.Tx) error {
				return errors.Join(run(ctx, t), db.Defer(ctx, t, tail()...))
			})
		}},
		{"a statement with COMMIT that must affect a row", bare.plus(1), func(ctx context.Context, _ *wiretest.Rig, db *tx.DB[pgx.Tx]) error {
			return db.Do(ctx, func(ctx context.Context, t pgx.Tx) error {
				return errors.Join(run(ctx, t), db.Defer(ctx, t, must()))
			})
		}},
		{"all of these", bare.plus(5), func(ctx context.Context, _ *wiretest.Rig, db *tx.DB[pgx.Tx]) error {
			return db.Run(ctx, tx.Plan[pgx.Tx]{Lead: lead, Work: func(ctx context.Context, t pgx.Tx) error {
				return errors.Join(run(ctx, t), db.Defer(ctx, t, append(tail(), must())...))
			}})
		}},
		{"a savepoint costs two", trips{{6, 8}, {6, 6}, {6, 8}, {8, 8}, {6, 6}}, func(ctx context.Context, _ *wiretest.Rig, db *tx.DB[pgx.Tx]) error {
			return db.Do(ctx, func(ctx context.Context, _ pgx.Tx) error { return db.Do(ctx, run) })
		}},
		{"a rollback is a trip like COMMIT", bare, func(ctx context.Context, _ *wiretest.Rig, db *tx.DB[pgx.Tx]) error {
			failed := errors.New("failed")
			err := db.Do(ctx, func(ctx context.Context, t pgx.Tx) error { return errors.Join(failed, run(ctx, t)) })
			if !errors.Is(err, failed) {
				return err
			}
			return nil
		}},
		{"a fence that fails is a rollback after it", trips{{5, 7}, {5, 5}, {5, 7}, {7, 7}, {5, 5}}, func(ctx context.Context, _ *wiretest.Rig, db *tx.DB[pgx.Tx]) error {
			err := db.Do(ctx, func(ctx context.Context, t pgx.Tx) error {
				return errors.Join(run(ctx, t), db.Defer(ctx, t, &tx.Stmt{
					SQL: "update effect set name = $1 where false returning 1", Args: []any{"e"}, MustAffect: fence,
				}))
			})
			if !errors.Is(err, fence) {
				return errors.Join(errors.New("want the error of the fence"), err)
			}
			return nil
		}},
	} {
		t.Run(pin.name, func(t *testing.T) {
			for i, mode := range wiretest.Modes {
				t.Run(mode.String(), func(t *testing.T) {
					t.Parallel()
					r := wiretest.Open(t, mode)
					r.Exec("create table effect (name text)")
					db := pgxtx.New(r.Pool)
					got := r.WarmAndCold(func() {
						if err := pin.call(t.Context(), r, db); err != nil {
							t.Error(err)
						}
					})
					if got != pin.want[i] {
						t.Errorf("%d trips warm and %d cold, want %v", got[0], got[1], pin.want[i])
					}
				})
			}
		})
	}
}

func TestOneCommit(t *testing.T) {
	r := wiretest.Open(t, pgx.QueryExecModeCacheStatement)
	r.Exec("create table effect (name text)")
	db := pgxtx.New(r.Pool)
	commits, begins := r.Proxy.Watch(wire.Runs("commit")), r.Proxy.Watch(wire.Runs("begin"))
	if err := db.Do(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	if commits.Hits() != 1 || begins.Hits() != 1 {
		t.Errorf("%d commits and %d begins, want 1 of each", commits.Hits(), begins.Hits())
	}
}

func TestDiscardingDoesNotWaitForTheRollback(t *testing.T) {
	r := wiretest.Open(t, pgx.QueryExecModeCacheStatement)
	db := pgxtx.New(r.Pool)
	discard := func() {
		err := db.Run(t.Context(), tx.Plan[pgx.Tx]{Work: func(context.Context, pgx.Tx) error { return tx.ErrDiscard }})
		if err != nil {
			t.Error(err)
		}
	}
	if got := r.Warm(discard); got != 2 {
		t.Errorf("%d trips, want BEGIN and the rollback", got)
	}
	held := r.Proxy.HoldReplyTo(wire.Runs("rollback"))
	defer held.Release()
	discard()
	<-held.Hit()
}

// An error must not cost the calls after it: what was prepared stays prepared.
func TestErrorsKeepStatementsPrepared(t *testing.T) {
	r := wiretest.Open(t, pgx.QueryExecModeCacheStatement)
	r.Exec("create table effect (name text); create table once (name text primary key); insert into once values ('taken')")
	db := pgxtx.New(r.Pool)
	lead := func() []*tx.Stmt { return []*tx.Stmt{{SQL: "select $1::int", Args: []any{1}}} }
	call := func() {
		if err := db.Run(t.Context(), tx.Plan[pgx.Tx]{Lead: lead, Work: run}); err != nil {
			t.Error(err)
		}
	}
	if got := r.Warm(call); got != 4 {
		t.Fatalf("%d trips warm, want 4", got)
	}
	for name, failing := range map[string]tx.Plan[pgx.Tx]{
		"of the closure": {Lead: lead, Work: func(ctx context.Context, t pgx.Tx) error {
			return errors.Join(run(ctx, t), errors.New("no"))
		}},
		"discarded": {Lead: lead, Work: func(context.Context, pgx.Tx) error { return tx.ErrDiscard }},
		"unique violation in the closure": {Lead: lead, Work: func(ctx context.Context, t pgx.Tx) error {
			_, err := t.Exec(ctx, "insert into once values ($1)", "taken")
			return err
		}},
		"unique violation with COMMIT": {Lead: lead, Work: func(ctx context.Context, t pgx.Tx) error {
			return db.Defer(ctx, t, &tx.Stmt{SQL: "insert into once values ($1)", Args: []any{"taken"}})
		}},
		"unique violation with BEGIN": {
			Lead: func() []*tx.Stmt { return []*tx.Stmt{{SQL: "insert into once values ($1)", Args: []any{"taken"}}} },
			Work: run,
		},
		"a fence": {Lead: lead, Work: func(ctx context.Context, t pgx.Tx) error {
			return db.Defer(ctx, t, &tx.Stmt{SQL: "delete from once where name = $1 returning 1", Args: []any{"x"}, MustAffect: errors.New("fence")})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			err := db.Run(t.Context(), failing)
			if err == nil && name != "discarded" {
				t.Fatal("no error")
			}
			// pgx drops a statement of the user's that failed, and tells the server before the next one of that kind.
			want := 4
			if name == "unique violation in the closure" {
				want = 5
			}
			if got := r.Trips(call); got != want {
				t.Errorf("the next call took %d trips, want %d", got, want)
			}
			if got := r.Trips(call); got != 4 {
				t.Errorf("the one after it took %d trips, want 4", got)
			}
		})
	}
}
