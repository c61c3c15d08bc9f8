package tx_test

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/tx"
)

var asksForStatus = wire.Runs("select case when pg_is_in_recovery()")

// With ResolveCommit a lost reply is no longer an unknown outcome: the server knows.
func TestResolveCommit(t *testing.T) { onPostgres(t, resolveCommit[pgx.Tx], resolveCommit[*sql.Tx]) }

func resolveCommit[T any](t *testing.T, open opener[T]) {
	for _, c := range []struct {
		damage int
		runs   int
	}{{cutReply, 1}, {cutRequest, 2}, {holdReply, 1}} {
		p, proxied, direct := throughProxy(t)
		s, control := open(t, proxied, 2), open(t, direct, 2)
		table(t, control)
		runs, hooks := 0, 0
		// What is held is given up when the commit timeout has passed.
		db := s.With(tx.Options{ResolveCommit: true, CommitTimeout: time.Second})
		err := db.Do(t.Context(), func(ctx context.Context, nt T) error {
			if runs++; runs == 1 {
				arm(p, c.damage)
			}
			if err := tx.AfterCommit(ctx, func(context.Context) { hooks++ }); err != nil {
				return err
			}
			_, err := db.Tx(nt).Exec(ctx, insertEntry, 1)
			return err
		})
		if err != nil || runs != c.runs || hooks != 1 {
			t.Errorf("damage %d: ran %d times with %d hooks and got %v, want %d runs, one hook and nil", c.damage, runs, hooks, err, c.runs)
		}
		if got := entries(t, control, 1); got != 1 {
			t.Errorf("damage %d: %d entries, want 1", c.damage, got)
		}
	}
}

// A backend that lost its client may still be committing: a deferred trigger waits here. That is no rollback.
func TestCommitInProgressIsNotAborted(t *testing.T) {
	onPostgres(t, commitInProgress[pgx.Tx], commitInProgress[*sql.Tx])
}

func commitInProgress[T any](t *testing.T, open opener[T]) {
	t.Run("until it has committed", func(t *testing.T) {
		t.Parallel()
		o := tx.Options{ResolveCommit: true, CommitTimeout: 30 * time.Second}
		c := slowCommit(t, open, o, func(asked *wire.Hook) bool { return asked.Hits() >= 2 })
		if c.err != nil || c.runs != 1 || c.hooks != 1 || c.entries != 1 {
			t.Errorf("ran %d times with %d hooks, %d entries and got %v, want one of each and nil", c.runs, c.hooks, c.entries, c.err)
		}
	})
	t.Run("for too long", func(t *testing.T) {
		t.Parallel()
		o := tx.Options{ResolveCommit: true, CommitTimeout: time.Second}
		c := slowCommit(t, open, o, nil)
		var unknown *tx.CommitUnknownError
		if !errors.As(c.err, &unknown) || unknown.Resolve == nil || c.runs != 1 || c.hooks != 0 {
			t.Errorf("ran %d times with %d hooks and got %v, want one run, no hook, and unknown with a reason", c.runs, c.hooks, c.err)
		}
		if c.entries != 1 {
			t.Errorf("%d entries, want the one that was committed after all", c.entries)
		}
	})
}

type slow struct {
	err                  error
	runs, hooks, entries int
}

// slowCommit runs a transaction whose commit waits in the server for a lock, breaks its connection meanwhile, and lets the
// commit go on when until says so, or when Do has returned.
func slowCommit[T any](t *testing.T, open opener[T], o tx.Options, until func(asked *wire.Hook) bool) (got slow) {
	p, proxied, direct := throughProxy(t)
	p.LoseCancels()
	control := open(t, direct, 3)
	s := open(t, proxied, 3).With(o)
	table(t, control)
	key := rand.Int32()
	for _, query := range []string{
		"create function wait() returns trigger language plpgsql as 'begin perform pg_advisory_xact_lock(tg_argv[0]::int); return null; end'",
		"create constraint trigger waits after insert on entry deferrable initially deferred for each row execute function wait(" + itoa(key) + ")",
	} {
		if _, err := control.Conn().Exec(t.Context(), query); err != nil {
			t.Fatal(err)
		}
	}
	asked := p.Watch(asksForStatus)
	done := make(chan struct{})
	err := control.Do(t.Context(), func(ctx context.Context, nt T) error { // holds the lock as long as it runs
		if _, err := control.Tx(nt).Exec(ctx, "select pg_advisory_xact_lock("+itoa(key)+")"); err != nil {
			return err
		}
		go func() {
			defer close(done)
			got.err = s.Do(context.Background(), func(ctx context.Context, nt T) error {
				got.runs++
				if err := tx.AfterCommit(ctx, func(context.Context) { got.hooks++ }); err != nil {
					return err
				}
				_, err := s.Tx(nt).Exec(ctx, insertEntry, 1)
				return err
			})
		}()
		await(t, func() bool {
			var waiting int
			err := control.Conn().QueryRow(ctx, "select count(*) from pg_locks where locktype = 'advisory' and not granted and objid = "+itoa(key)).Scan(&waiting)
			return err == nil && waiting == 1
		})
		p.Break()
		if until == nil {
			<-done
		} else {
			await(t, func() bool { return until(asked) })
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	<-done
	got.entries = settled(t, control, 1, 1)
	return got
}

// await waits until what a test waits for is so.
func await(t *testing.T, so func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !so(); {
		if time.Now().After(end) {
			t.Error("waited in vain")
			return
		}
	}
}

// What the transaction wrote is asked first. The status is asked where that does not tell.
func TestResolveBeforeStatus(t *testing.T) {
	onPostgres(t, resolveBeforeStatus[pgx.Tx], resolveBeforeStatus[*sql.Tx])
}

func resolveBeforeStatus[T any](t *testing.T, open opener[T]) {
	for _, c := range []struct {
		name    string
		outcome holdfast.Outcome
		err     error
		asked   int
	}{
		{"applied", holdfast.Applied, nil, 0},
		{"unknown", holdfast.Unknown, nil, 1},
		{"failed", holdfast.Unknown, errors.New("cannot look"), 1},
	} {
		p, proxied, direct := throughProxy(t)
		s, control := open(t, proxied, 2), open(t, direct, 2)
		table(t, control)
		asked := p.Watch(asksForStatus)
		err := s.With(tx.Options{ResolveCommit: true}).Run(t.Context(), tx.Plan[T]{
			Work: func(ctx context.Context, nt T) error {
				arm(p, cutReply)
				_, err := s.Tx(nt).Exec(ctx, insertEntry, 1)
				return err
			},
			Resolve: func(context.Context) (holdfast.Outcome, error) { return c.outcome, c.err },
		})
		if err != nil || min(asked.Hits(), 1) != c.asked {
			t.Errorf("%s: asked %d times and got %v, want %d and nil", c.name, asked.Hits(), err, c.asked)
		}
	}
}

// The option costs a round trip where nothing rides with BEGIN. Package pgxtx pins that it costs none where it does.
func TestResolveCommitRoundTrips(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"pgx", "postgres"} {
		p, proxied, _ := throughProxy(t)
		s := openSQL(driver)(t, proxied, 1)
		cost := func(o tx.Options) int {
			do := func() {
				if err := s.With(o).Do(t.Context(), func(ctx context.Context, nt *sql.Tx) error {
					_, err := nt.ExecContext(ctx, "select 1")
					return err
				}); err != nil {
					t.Error(err)
				}
			}
			do()
			least := 100
			for range 5 { // pgx pings what was idle for a second, on a machine that is slow
				p.Reset()
				do()
				least = min(least, p.Trips())
			}
			return least
		}
		without, with, readOnly := cost(tx.Options{}), cost(tx.Options{ResolveCommit: true}), cost(tx.Options{ResolveCommit: true, ReadOnly: true})
		if without != 3 || with != 4 || readOnly != 3 {
			t.Errorf("%s: %d trips, %d with the option and %d if read-only, want 3, 4 and 3", driver, without, with, readOnly)
		}
	}
}

// A server that crashed gives the number of a transaction that was lost to another one. That this one committed proves
// nothing.
func TestStatusOfAnotherTransactionWithTheSameID(t *testing.T) {
	t.Parallel()
	server := postgresServer(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	setUp, err := pgx.Connect(ctx, server.URL())
	if err != nil {
		t.Fatal(err)
	}
	// Only a commit writes the log.
	for _, query := range []string{"alter system set wal_writer_delay = '10s'", "select pg_reload_conf()", "create table entry (n bigint)"} {
		if _, err := setUp.Exec(ctx, query); err != nil {
			t.Fatal(err)
		}
	}
	_ = setUp.Close(ctx)
	for name, crash := range map[string]func(pid int) error{
		"of the server":  func(int) error { return errors.Join(server.Kill(), server.Start(ctx)) },
		"of one process": func(pid int) error { return crashOne(ctx, server.URL(), pid) },
	} {
		s := openPgx(pgx.QueryExecModeCacheStatement)(t, server.URL(), 2).With(tx.Options{ResolveCommit: true, Attempts: 1})
		hooks := 0
		var lost, reused int64
		err := s.Do(ctx, func(ctx context.Context, nt pgx.Tx) error {
			if err := tx.AfterCommit(ctx, func(context.Context) { hooks++ }); err != nil {
				return err
			}
			var pid int
			if err := nt.QueryRow(ctx, "insert into entry values (1) returning pg_current_xact_id()::text::bigint, pg_backend_pid()").Scan(&lost, &pid); err != nil {
				return err
			}
			if err := crash(pid); err != nil {
				return err
			}
			other, err := pgx.Connect(ctx, server.URL())
			if err != nil {
				return err
			}
			defer other.Close(ctx)
			return other.QueryRow(ctx, "insert into entry values (2) returning pg_current_xact_id()::text::bigint").Scan(&reused)
		})
		if reused != lost || lost == 0 {
			t.Fatalf("crash %s: the lost transaction was number %d and the next is %d: the test shows nothing (%v)", name, lost, reused, err)
		}
		if holdfast.OutcomeOf(err) != holdfast.Unknown || hooks != 0 || !strings.Contains(err.Error(), "restarted") {
			t.Errorf("crash %s: %d hooks and %v, want it unknown, since the server has restarted", name, hooks, err)
		}
	}
}
