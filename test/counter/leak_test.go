package counter_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/counter"
	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/internal/testdb/pgxdb"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
	"github.com/holdfast-go/holdfast/tx/sqltx"
)

// After Close no connection is taken from the pool, no session is in a transaction, and no goroutine has stayed, however the
// calls ended. The tests count what the process holds, so they run beside no other.

func TestNothingIsLeftPgx(t *testing.T) { //nolint:paralleltest // see above
	direct := testdb.Postgres(t)
	proxy, err := wire.Start(direct, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	watch := pgxdb.Pool(t, direct, 8)
	if err := watch.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := goleak.IgnoreCurrent()
	config, err := pgxpool.ParseConfig(proxy.URL())
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.RuntimeParams["application_name"] = "holdfast_counter_left"
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	nothingIsLeft(t, pgxtx.New(pool).With(quick), proxy, func() error {
		if n := pool.Stat().AcquiredConns(); n != 0 {
			return fmt.Errorf("%d connections are taken", n)
		}
		var sessions int
		err := watch.QueryRow(context.Background(), `select count(*) from pg_stat_activity
			where application_name = 'holdfast_counter_left' and state like '%in transaction%'`).Scan(&sessions)
		if err == nil && sessions > 0 {
			err = fmt.Errorf("%d sessions are in a transaction", sessions)
		}
		return err
	})
	pool.Close()
	alone(t, before)
}

func TestNothingIsLeftSQLite(t *testing.T) { //nolint:paralleltest // see above
	before := goleak.IgnoreCurrent()
	pool, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "a.db")+sqliteParams)
	if err != nil {
		t.Fatal(err)
	}
	nothingIsLeft(t, sqltx.New(pool, tx.SQLite, nil), nil, func() error {
		if n := pool.Stats().InUse; n != 0 {
			return fmt.Errorf("%d connections are taken", n)
		}
		return nil
	})
	_ = pool.Close()
	alone(t, before)
}

func nothingIsLeft[T any](t *testing.T, db *tx.DB[T], proxy *wire.Proxy, held func() error) {
	t.Helper()
	migrate(t, db)
	for _, batch := range []int{0, 1, 4} {
		c := counter.New(db, &counter.Options{MaxBatch: batch})
		key := fmt.Sprint("k", batch)
		var all sync.WaitGroup
		for i := range 64 {
			all.Go(func() {
				for n := range 4 {
					leave(t.Context(), c, db, proxy, key, i+n)
				}
			})
		}
		all.Wait()
		if err := c.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		settled(t, held)
	}
}

// leave makes a call that ends in one of the ways in which calls end.
func leave[T any](ctx context.Context, c *counter.Counters[T], db *tx.DB[T], proxy *wire.Proxy, key string, i int) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	switch i % 8 {
	case 0:
		cancel()
	case 1:
		go cancel()
	case 2:
		if proxy != nil {
			defer proxy.CutReplyTo(wire.Runs([]string{"with holdfast_fresh", "insert", "commit"}[i%3])).Disarm()
		}
	}
	switch i % 5 {
	case 0:
		_, _ = c.Take(ctx, key, 1000)
	case 1:
		_, _ = c.Add(ctx, key, 1, counter.Once(fmt.Sprint(i%9)))
	case 2:
		_ = c.AddMany(ctx, []counter.Change{{Key: key, N: 1}, {Key: key + "more", N: 1}})
	case 3:
		_ = db.Do(ctx, func(ctx context.Context, t T) error {
			_, _ = c.AddTx(ctx, t, key, 1)
			return errors.New("undo")
		})
	default:
		_, _ = c.Add(ctx, key, 1)
	}
}

// settled fails unless soon nothing is held. What was discarded is rolled back on a goroutine, and a server takes a moment to
// see that a connection is gone.
func settled(t *testing.T, held func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); runtime.Gosched() {
		if err = held(); err == nil {
			return
		}
	}
	t.Fatal(err)
}

func alone(t *testing.T, before goleak.Option) {
	t.Helper()
	settled(t, func() error {
		return goleak.Find(before, goleak.IgnoreAnyFunction("github.com/holdfast-go/holdfast/internal/wire.(*session).run"))
	})
}
