package tx_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/test/stddb"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/sqltx"
)

// openWith opens a SQLite database with a data source name, whose parameters are those of the driver.
func openWith(t *testing.T, driver, dsn string, conns int) (*sql.DB, *tx.DB[*sql.Tx]) {
	t.Helper()
	pool := stddb.Open(t, driver, dsn, conns)
	return pool, sqltx.New(pool, tx.SQLite, &sqltx.Options{BusyTimeout: 20 * time.Millisecond})
}

func execSQL(t *testing.T, pool *sql.DB, query string) {
	t.Helper()
	if _, err := pool.ExecContext(context.Background(), query); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func wantEntries(t *testing.T, pool *sql.DB, want int) {
	t.Helper()
	var got int
	if err := pool.QueryRowContext(context.Background(), "select count(*) from entry").Scan(&got); err != nil || got != want {
		t.Errorf("%d entries, %v, want %d", got, err, want)
	}
}

// Some errors make SQLite end the transaction by itself, and what follows is committed statement by statement.
func TestSQLiteEndsTransaction(t *testing.T) {
	later := errors.New("a later step fails")
	insert := func(ctx context.Context, nt *sql.Tx, n int) error {
		_, err := nt.ExecContext(ctx, "insert into entry values (?)", n)
		return err
	}
	each(t, tx.SQLite, func(t *testing.T, e engine) {
		pool, db := e.open(t, 1, 0)
		execSQL(t, pool, "create table entry (n integer); create table counter (n integer); "+
			"create trigger refuse before insert on entry when new.n < 0 begin select raise(rollback, 'refused'); end")
		for _, c := range []struct {
			name    string
			work    func(ctx context.Context, nt *sql.Tx) error
			outcome holdfast.Outcome
			is      error
			entries int // that are left, beside the one of the first statement
		}{
			{"returned", func(ctx context.Context, nt *sql.Tx) error {
				return insert(ctx, nt, -1)
			}, holdfast.NotApplied, nil, 0},
			{"dropped", func(ctx context.Context, nt *sql.Tx) error {
				_ = insert(ctx, nt, -1)
				return nil
			}, holdfast.Unknown, tx.ErrTxAborted, 0},
			{"dropped, with more to come at the commit", func(ctx context.Context, nt *sql.Tx) error {
				if err := db.Defer(ctx, nt, &tx.Stmt{SQL: insertEntry, Args: []any{2}}); err != nil {
					return err
				}
				_ = insert(ctx, nt, -1)
				return nil
			}, holdfast.Unknown, tx.ErrTxAborted, 0},
			{"dropped, and went on", func(ctx context.Context, nt *sql.Tx) error {
				_ = insert(ctx, nt, -1)
				return insert(ctx, nt, 2)
			}, holdfast.Unknown, tx.ErrTxAborted, 1},
			{"dropped, went on, and failed", func(ctx context.Context, nt *sql.Tx) error {
				_ = insert(ctx, nt, -1)
				_ = insert(ctx, nt, 2)
				return later
			}, holdfast.Unknown, later, 1},
		} {
			execSQL(t, pool, "delete from entry")
			err := db.Do(t.Context(), func(ctx context.Context, nt *sql.Tx) error {
				if err := insert(ctx, nt, 1); err != nil {
					return err
				}
				return c.work(ctx, nt)
			})
			if got := holdfast.OutcomeOf(err); got != c.outcome || c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("%s: got %v (%v), want %v (%v)", c.name, err, got, c.is, c.outcome)
			}
			wantEntries(t, pool, c.entries)
		}
	})
}

// A context that ends during a write makes SQLite end the transaction.
func TestSQLiteInterruptedWrite(t *testing.T) {
	each(t, tx.SQLite, func(t *testing.T, e engine) {
		pool, db := e.open(t, 1, 0)
		execSQL(t, pool, "create table entry (n integer)")
		for _, dropped := range []bool{false, true} {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			err := db.Do(ctx, func(ctx context.Context, nt *sql.Tx) error {
				_, err := nt.ExecContext(ctx, "insert into entry with recursive n (i) as (select 1 union all select i + 1 from n) select i from n")
				if dropped {
					return nil
				}
				return err
			})
			cancel()
			want := holdfast.NotApplied
			if dropped {
				want = holdfast.Unknown
			}
			if got := holdfast.OutcomeOf(err); got != want {
				t.Errorf("dropped %v: got %v (%v), want %v", dropped, err, got, want)
			}
			wantEntries(t, pool, 0)
		}
	})
}

// Without the write-ahead log a commit waits for readers. One that waited too long is rolled back and tried again.
func TestSQLiteBusyAtCommit(t *testing.T) {
	each(t, tx.SQLite, func(t *testing.T, e engine) {
		wait := map[string]string{"sqlite": "?_pragma=busy_timeout(20)", "sqlite3": "?_busy_timeout=20"}[e.name]
		pool, db := openWith(t, e.name, file(t)+wait, 3)
		execSQL(t, pool, "create table entry (n integer); insert into entry values (1)")
		reader, err := pool.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var n int
		if err := reader.QueryRowContext(t.Context(), "select n from entry").Scan(&n); err != nil {
			t.Fatal(err)
		}
		runs := 0
		observed := db.Observed(holdfast.ObserverFunc(func(_ context.Context, event holdfast.Event) {
			if runs == 1 {
				_ = reader.Rollback()
			}
		}))
		if err := observed.Do(t.Context(), func(ctx context.Context, nt *sql.Tx) error {
			runs++
			_, err := nt.ExecContext(ctx, "insert into entry values (2)")
			return err
		}); err != nil || runs != 2 {
			t.Errorf("ran %d times and got %v, want 2 times and nil", runs, err)
		}
		wantEntries(t, pool, 2)
	})
}

// What a data source name sets stays as it is, and does no harm.
func TestSQLiteDataSourceNames(t *testing.T) {
	each(t, tx.SQLite, func(t *testing.T, e engine) {
		readOnly := map[string]string{"sqlite": "?_pragma=query_only(1)", "sqlite3": "?_query_only=1"}[e.name]
		for _, c := range []struct {
			name, dsn string
			conns     int
			err       error
		}{
			{"immediate", file(t) + "?_txlock=immediate", 2, nil},
			{"exclusive", file(t) + "?_txlock=exclusive", 2, nil},
			{"in memory", ":memory:", 1, nil},
			{"shared cache", "file:" + e.name + "?mode=memory&cache=shared", 4, nil},
			{"query only", file(t) + readOnly, 1, tx.ErrReadOnly},
			{"no folder", "file:" + filepath.Join(t.TempDir(), "missing", "test.db"), 1, tx.ErrNotSent},
		} {
			pool, db := openWith(t, e.name, c.dsn, c.conns)
			for _, o := range []tx.Options{{}, {ReadOnly: true}, {}} {
				err := db.With(o).Do(t.Context(), func(ctx context.Context, nt *sql.Tx) error {
					if o.ReadOnly {
						return nt.QueryRowContext(ctx, "select 1").Scan(new(int))
					}
					_, err := nt.ExecContext(ctx, "create table if not exists entry (n integer)")
					return err
				})
				if c.err == nil && err != nil || c.err != nil && !errors.Is(err, c.err) && !o.ReadOnly {
					t.Errorf("%s, %+v: got %v, want %v", c.name, o, err, c.err)
				}
			}
			_ = pool.Close()
		}
	})
}

// With a shared cache SQLite does not wait for a lock at all. We do.
func TestSQLiteSharedCacheWaits(t *testing.T) {
	each(t, tx.SQLite, func(t *testing.T, e engine) {
		pool, err := sql.Open(e.name, "file:"+t.Name()+"?mode=memory&cache=shared")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = pool.Close() })
		db := sqltx.New(pool, tx.SQLite, nil).With(tx.Options{Attempts: 1})
		execSQL(t, pool, "create table entry (n integer)")
		first, second := make(chan struct{}), make(chan error)
		go func() {
			<-first
			second <- db.Do(t.Context(), func(ctx context.Context, nt *sql.Tx) error {
				_, err := nt.ExecContext(ctx, "insert into entry values (2)")
				return err
			})
		}()
		if err := db.Do(t.Context(), func(ctx context.Context, nt *sql.Tx) error {
			_, err := nt.ExecContext(ctx, "insert into entry values (1)")
			close(first)
			for pool.Stats().InUse < 2 { // until the other has come for the lock
				runtime.Gosched()
			}
			return err
		}); err != nil {
			t.Error(err)
		}
		if err := <-second; err != nil {
			t.Error(err)
		}
		wantEntries(t, pool, 2)
	})
}

// SQLite waits for a lock as long as its busy timeout says and does not look at the context. We do.
func TestSQLiteLockWaitEndsWithContext(t *testing.T) {
	each(t, tx.SQLite, func(t *testing.T, e engine) {
		name := file(t)
		holder, _ := openWith(t, e.name, name, 1)
		execSQL(t, holder, "create table entry (n integer); begin immediate")
		for _, lock := range []string{"", "&_txlock=immediate"} {
			minute := map[string]string{"sqlite": "?_pragma=busy_timeout(60000)", "sqlite3": "?_busy_timeout=60000"}[e.name]
			pool, db := openWith(t, e.name, name+minute+lock, 1)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			start := time.Now()
			err := db.Do(ctx, func(context.Context, *sql.Tx) error { return errors.New("the closure ran") })
			cancel()
			if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took > 30*time.Second {
				t.Errorf("%q: got %v after %v, want the end of the context", lock, err, took)
			}
			var ms int
			if err := pool.QueryRowContext(t.Context(), "pragma busy_timeout").Scan(&ms); err != nil || ms != 60000 {
				t.Errorf("%q: the connection is left to wait %d ms, %v, want 60000", lock, ms, err)
			}
		}
	})
}
