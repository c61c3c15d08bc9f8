package contention_test

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/counter"
	"github.com/holdfast-go/holdfast/optimistic"
	"github.com/holdfast-go/holdfast/tx"
)

var items = counter.Column{Table: "item", Key: "id", Column: "n"}

func openItems[T any](t *testing.T, db *tx.DB[T]) {
	t.Helper()
	must(t, counter.Migrate(t.Context(), db, counter.Names{}))
	exec(t, db, `create table item (id int primary key, n integer)`)
	exec(t, db, `insert into item values (1, 40)`)
}

// A change that a trigger keeps from being made is an error, and does not use up its operation ID.
func TestSuppressed(t *testing.T) {
	t.Parallel()
	db, _ := pgxDB(t, 8)
	openItems(t, db)
	exec(t, db, `create function frozen() returns trigger language plpgsql as $$ begin return null; end $$`)
	exec(t, db, `create trigger frozen before update on item for each row execute function frozen()`)
	c := counter.NewColumn(db, items, nil)
	for name, call := range map[string]func() error{
		"Take": func() error { _, err := c.Take(t.Context(), "1", 1); return err },
		"Add":  func() error { _, err := c.Add(t.Context(), "1", 1); return err },
		"Once": func() error { _, err := c.Take(t.Context(), "1", 1, counter.Once("x")); return err },
		"Many": func() error { return c.AddMany(t.Context(), []counter.Change{{Key: "1", N: 1}}) },
	} {
		if err := call(); err == nil || holdfast.OutcomeOf(err) != holdfast.NotApplied {
			t.Errorf("%s: %v (%v)", name, err, holdfast.OutcomeOf(err))
		}
	}
	exec(t, db, `drop trigger frozen on item`)
	res, err := c.Take(t.Context(), "1", 1, counter.Once("x"))
	if err != nil || res.Replayed || res.Value != 39 {
		t.Errorf("with the ID of what was suppressed: %+v, %v", res, err)
	}
}

// A lock that times out is the fault of no item: the batch is not taken apart, each part to wait again.
func TestALockThatTimesOut(t *testing.T) {
	t.Parallel()
	db, pool := pgxDB(t, 2)
	openItems(t, db)
	holder, err := pool.Acquire(t.Context())
	must(t, err)
	defer holder.Release()
	worker, err := pool.Acquire(t.Context())
	must(t, err)
	_, err = holder.Exec(t.Context(), "begin; select 1 from item for update")
	must(t, err)
	_, err = worker.Exec(t.Context(), "set lock_timeout = '50ms'")
	must(t, err)
	worker.Release()
	var batches atomic.Int64
	c := counter.NewColumn(db, items, &counter.Options{Observer: holdfast.ObserverFunc(func(context.Context, holdfast.Event) { batches.Add(1) })})
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			if _, err := c.Add(t.Context(), "1", 1); holdfast.OutcomeOf(err) != holdfast.NotApplied {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := batches.Load(); n > 8 {
		t.Errorf("64 calls were tried in %d batches", n)
	}
	_, err = holder.Exec(context.Background(), "rollback")
	must(t, err)
}

// Who waits for a connection of the pool until its context ends has sent nothing.
func TestNoConnectionIsLeft(t *testing.T) {
	t.Parallel()
	t.Run("pgx", func(t *testing.T) {
		t.Parallel()
		db, pool := pgxDB(t, 1)
		must(t, counter.Migrate(t.Context(), db, counter.Names{}))
		conn, err := pool.Acquire(t.Context())
		must(t, err)
		defer conn.Release()
		exhausted(t, db)
	})
	t.Run("database/sql", func(t *testing.T) {
		t.Parallel()
		db, pool := sqlDB(t, "pgx", 1)
		must(t, counter.Migrate(t.Context(), db, counter.Names{}))
		var conn *sql.Conn
		conn, err := pool.Conn(t.Context())
		must(t, err)
		defer func() { _ = conn.Close() }()
		exhausted(t, db)
	})
}

func exhausted[T any](t *testing.T, db *tx.DB[T]) {
	t.Helper()
	c, rows := counter.New(db, nil), optimistic.New(db, optimistic.Table{Name: "doc"}, nil)
	for name, call := range map[string]func(ctx context.Context) error{
		"Add":      func(ctx context.Context) error { _, err := c.Add(ctx, "k", 1); return err },
		"Add Once": func(ctx context.Context) error { _, err := c.Add(ctx, "k", 1, counter.Once("x")); return err },
		"Set": func(ctx context.Context) error {
			_, err := rows.Set(ctx, item(1, "").Want, map[string]any{"title": "z"})
			return err
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		err := call(ctx)
		cancel()
		if holdfast.OutcomeOf(err) != holdfast.NotApplied || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v: %v", name, holdfast.OutcomeOf(err), err)
		}
	}
}
