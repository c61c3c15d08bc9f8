package tx_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/sqltx"
)

const unserializable = "do $$ begin raise exception 'provoked' using errcode = 'serialization_failure'; end $$"

// T12: an inner loop of retries inside an outer one multiplies the attempts.
func TestT12_InnerRetriesDoNotMultiply(t *testing.T) {
	onPostgres(t, innerRetries[pgx.Tx], innerRetries[*sql.Tx])
}

func innerRetries[T any](t *testing.T, open opener[T]) {
	s := open(t, postgres(t), 2)
	runs := 0
	db := s.With(tx.Options{Attempts: 3})
	work := func(ctx context.Context, nt T) error {
		runs++
		_, err := s.Tx(nt).Exec(ctx, unserializable)
		return err
	}
	// Joined, it is part of the outer transaction.
	err := db.Do(t.Context(), func(ctx context.Context, _ T) error { return db.Do(ctx, work) })
	if runs != 3 || !errors.Is(err, tx.ErrAttempts) {
		t.Errorf("the joined closure ran %d times and gives %v, want 3 times and no attempts left", runs, err)
	}
	// Outside, in a transaction of its own, it has used up its attempts, and the outer one does not add to them.
	runs = 0
	other := open(t, postgres(t), 2)
	err = db.Do(t.Context(), func(ctx context.Context, _ T) error { return other.With(tx.Options{Attempts: 3}).Do(ctx, work) })
	if runs != 3 || !errors.Is(err, tx.ErrAttempts) {
		t.Errorf("the closure of another pool ran %d times and gives %v, want 3 times and no attempts left", runs, err)
	}
	runs = 0
	err = db.Do(t.Context(), func(ctx context.Context, nt T) error {
		return db.Nested(ctx, nt, func(ctx context.Context, _ T) error { return other.With(tx.Options{Attempts: 3}).Do(ctx, work) })
	})
	if runs != 3 || !errors.Is(err, tx.ErrAttempts) {
		t.Errorf("in a savepoint it ran %d times and gives %v, want 3 times and no attempts left", runs, err)
	}
}

// T13: SQLite refuses to turn a transaction that has read into one that writes when another has written in between: at
// once, whatever the busy timeout.
func TestT13_ReadThenWriteOnSQLite(t *testing.T) {
	each(t, tx.SQLite, func(t *testing.T, e engine) {
		const writers = 50
		pool, db := e.open(t, 10, 5*time.Second)
		if _, err := pool.ExecContext(t.Context(), "create table counter (n integer); insert into counter values (0)"); err != nil {
			t.Fatal(err)
		}
		db = db.With(tx.Options{Attempts: 1}) // nothing is to be cured by trying again
		var done sync.WaitGroup
		for range writers {
			done.Go(func() {
				err := db.Do(t.Context(), func(ctx context.Context, nt *sql.Tx) error {
					var n int
					if err := nt.QueryRowContext(ctx, "select n from counter").Scan(&n); err != nil {
						return err
					}
					_, err := nt.ExecContext(ctx, "update counter set n = ?", n+1)
					return err
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		done.Wait()
		var n int
		if err := pool.QueryRowContext(t.Context(), "select n from counter").Scan(&n); err != nil || n != writers {
			t.Errorf("counted %d, %v, want %d", n, err, writers)
		}
	})
}

// T18: restarts without a pause starve each other until the cap. (The other half of the report, a deadlock that is not
// restarted at all, is the rule "deadlock" of the conformance suite.)
func TestT18_WritersAtSerializable(t *testing.T) {
	onPostgres(t, writersAtSerializable[pgx.Tx], writersAtSerializable[*sql.Tx])
}

func writersAtSerializable[T any](t *testing.T, open opener[T]) {
	const writers = 100
	s := open(t, postgres(t), 10)
	table(t, s)
	if _, err := s.Conn().Exec(t.Context(), insertEntry, 0); err != nil {
		t.Fatal(err)
	}
	db := s.With(tx.Options{Isolation: tx.Serializable, Attempts: 100})
	var done sync.WaitGroup
	for range writers {
		done.Go(func() {
			err := db.Do(t.Context(), func(ctx context.Context, nt T) error {
				var n int64
				if err := s.Tx(nt).QueryRow(ctx, "select n from entry").Scan(&n); err != nil {
					return err
				}
				_, err := s.Tx(nt).Exec(ctx, "update entry set n = $1", n+1)
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	done.Wait()
	var sum int64
	if err := s.Conn().QueryRow(t.Context(), "select n from entry").Scan(&sum); err != nil || sum != writers {
		t.Errorf("counted %d, %v, want %d", sum, err, writers)
	}
}

// A storm of conflicts does not multiply the load: with a budget the callers together run again as often as it says, and
// those that it stops have applied nothing.
func TestStormWithinBudget(t *testing.T) {
	onPostgres(t, stormWithinBudget[pgx.Tx], stormWithinBudget[*sql.Tx])
}

func stormWithinBudget[T any](t *testing.T, open opener[T]) {
	const callers, each, ratio, burst = 8, 10, 0.25, 5
	s := open(t, postgres(t), callers)
	table(t, s)
	if _, err := s.Conn().Exec(t.Context(), insertEntry, 0); err != nil {
		t.Fatal(err)
	}
	db := s.With(tx.Options{Isolation: tx.Serializable, RetryBudget: tx.NewBudget(ratio, burst)})
	var runs, commits, stopped atomic.Int64
	var storm sync.WaitGroup
	var read [each]sync.WaitGroup // all callers have read before one writes, so that they do conflict
	for i := range read {
		read[i].Add(callers)
	}
	for range callers {
		storm.Go(func() {
			for i := range each {
				met := sync.OnceFunc(func() { read[i].Done(); read[i].Wait() })
				err := db.Do(t.Context(), func(ctx context.Context, nt T) error {
					runs.Add(1)
					var n int64
					err := s.Tx(nt).QueryRow(ctx, "select n from entry").Scan(&n)
					met()
					if err != nil {
						return err
					}
					_, err = s.Tx(nt).Exec(ctx, "update entry set n = $1", n+1)
					return err
				})
				switch {
				case err == nil:
					commits.Add(1)
				case errors.Is(err, tx.ErrBudget) && holdfast.OutcomeOf(err) == holdfast.NotApplied:
					stopped.Add(1)
				default:
					t.Error(err)
				}
			}
		})
	}
	storm.Wait()
	most := callers*each + burst + ratio*float64(commits.Load())
	if got := runs.Load(); float64(got) > most || stopped.Load() == 0 {
		t.Errorf("%d runs for %d callers, %d stopped by the budget, want at most %v runs and a storm that needs more", got, callers*each, stopped.Load(), most)
	}
	var sum int64
	if err := s.Conn().QueryRow(t.Context(), "select n from entry").Scan(&sum); err != nil || sum != commits.Load() {
		t.Errorf("counted %d, %v, want %d", sum, err, commits.Load())
	}
}

// T24: an error wrapped by its text alone hides its code, and the transaction is not tried again. The code is gone,
// unless a savepoint has seen it.
func TestT24_ErrorWrappedByText(t *testing.T) {
	onPostgres(t, wrappedByText[pgx.Tx], wrappedByText[*sql.Tx])
}

func wrappedByText[T any](t *testing.T, open opener[T]) {
	s := open(t, postgres(t), 1)
	provoke := func(ctx context.Context, nt T) error {
		_, err := s.Tx(nt).Exec(ctx, unserializable)
		return err
	}
	hide := func(err error) error { return fmt.Errorf("saving: %v", err) } //nolint:errorlint // that is the fault
	for _, c := range []struct {
		name string
		work func(ctx context.Context, nt T) error
		runs int
	}{
		{"wrapped", func(ctx context.Context, nt T) error { return fmt.Errorf("saving: %w", provoke(ctx, nt)) }, 3},
		{"hidden", func(ctx context.Context, nt T) error { return hide(provoke(ctx, nt)) }, 1},
		{"hidden in a savepoint", func(ctx context.Context, nt T) error { return hide(s.Nested(ctx, nt, provoke)) }, 3},
		{"dropped in a savepoint", func(ctx context.Context, nt T) error { _ = s.Nested(ctx, nt, provoke); return nil }, 3},
	} {
		runs := 0
		err := s.With(tx.Options{Attempts: 3}).Do(t.Context(), func(ctx context.Context, nt T) error {
			runs++
			return c.work(ctx, nt)
		})
		if err == nil || runs != c.runs {
			t.Errorf("%s: ran %d times and got %v, want %d times and an error", c.name, runs, err, c.runs)
		}
	}
}

// SQLite's own limit on waiting, whoever sets it: the option where the connection has none, else the data source name.
func TestBusyTimeoutOfTheConnectionWins(t *testing.T) {
	each(t, tx.SQLite, func(t *testing.T, e engine) {
		dsn := file(t) + map[string]string{"sqlite": "?_pragma=busy_timeout(1234)", "sqlite3": "?_busy_timeout=1234"}[e.name]
		for _, c := range []struct {
			dsn  string
			want int
		}{{dsn, 1234}, {file(t) + map[string]string{"sqlite3": "?_busy_timeout=0"}[e.name], 777}} {
			pool, err := sql.Open(e.name, c.dsn)
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			db := sqltx.New(pool, tx.SQLite, &sqltx.Options{BusyTimeout: 777 * time.Millisecond})
			for _, o := range []tx.Options{{}, {ReadOnly: true}} {
				err = db.With(o).Do(t.Context(), func(ctx context.Context, nt *sql.Tx) error {
					var ms int
					if err := nt.QueryRowContext(ctx, "pragma busy_timeout").Scan(&ms); err != nil || ms != c.want {
						t.Errorf("%s: waits %d ms, %v, want %d", c.dsn, ms, err, c.want)
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		}
	})
}
