package contention_test

import (
	"context"
	"runtime"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/pessimistic"
	"github.com/holdfast-go/holdfast/tx"
)

// A job has one claim, whatever strength the locks have: two may share a row.
func TestAJobIsNotShared(t *testing.T) {
	t.Parallel()
	db, pool := pgxDB(t, 4)
	exec(t, db, `create table job (id int primary key)`)
	exec(t, db, `insert into job values (1)`)
	for _, strength := range []pessimistic.Strength{pessimistic.NoKeyUpdate, pessimistic.Update, pessimistic.Share, pessimistic.KeyShare} {
		locks := pessimistic.New(db, &pessimistic.Options{Strength: strength})
		first, err := pool.Begin(t.Context())
		must(t, err)
		second, err := pool.Begin(t.Context())
		must(t, err)
		queue := pessimistic.Queue{Table: pessimistic.Table{Name: "job"}}
		n, err := locks.Claim(t.Context(), first, queue)
		must(t, err)
		m, err := locks.Claim(t.Context(), second, queue)
		must(t, err)
		if n+m != 1 {
			t.Errorf("%v: %d claims of one job", strength, n+m)
		}
		must(t, first.Rollback(t.Context()))
		must(t, second.Rollback(t.Context()))
	}
}

// A callback for rows that panics or exits takes no connection with it, also where the rows come with BEGIN.
func TestACallbackThatPanics(t *testing.T) {
	t.Parallel()
	t.Run("pgx", func(t *testing.T) {
		t.Parallel()
		db, pool := pgxDB(t, 1)
		panics(t, db, func() int32 { return pool.Stat().AcquiredConns() })
	})
	t.Run("database/sql", func(t *testing.T) {
		t.Parallel()
		db, pool := sqlDB(t, "pgx", 1)
		panics(t, db, func() int32 { return int32(pool.Stats().InUse) })
	})
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		db, pool := sqlDB(t, "sqlite", 1)
		panics(t, db, func() int32 { return int32(pool.Stats().InUse) })
	})
}

func panics[T any](t *testing.T, db *tx.DB[T], used func() int32) {
	t.Helper()
	exec(t, db, `create table account (id int primary key)`)
	exec(t, db, `insert into account values (1)`)
	locks := pessimistic.New(db, nil)
	for _, end := range []func(){func() { panic("mine") }, runtime.Goexit} {
		var id int
		rows := pessimistic.Table{Name: "account"}.Rows(1).Read([]string{"id"}, []any{&id}, func(int) error { end(); return nil })
		queue := pessimistic.Queue{Table: pessimistic.Table{Name: "account"}}.Read([]string{"id"}, []any{&id}, func(int) error { end(); return nil })
		nothing := func(context.Context, T) error { return nil }
		for _, call := range []func(){
			func() { _ = locks.Do(t.Context(), []pessimistic.Rows{rows}, nothing) },
			func() { _, _ = locks.Work(t.Context(), queue, nothing) },
			func() {
				_ = db.Do(t.Context(), func(ctx context.Context, nt T) error { return locks.Lock(ctx, nt, rows) })
			},
		} {
			var wg sync.WaitGroup
			wg.Go(func() {
				defer func() { _ = recover() }()
				call()
			})
			wg.Wait()
			for used() != 0 { // until the test's own time is up
				runtime.Gosched()
			}
		}
	}
	must(t, locks.Do(t.Context(), []pessimistic.Rows{pessimistic.Table{Name: "account"}.Rows(1)}, func(context.Context, T) error { return nil }))
}
