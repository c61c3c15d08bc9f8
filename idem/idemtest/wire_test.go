package idemtest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// A caller who gets an answer or a refusal has waited for one trip: the rollback goes on without it.
func TestAnswersDoNotWaitForTheRollback(t *testing.T) {
	r := openRig(t, pgx.QueryExecModeCacheStatement)
	r.prepare()
	for name, call := range map[string]func(){
		"replay":    func() { r.do("known", two, nil) },
		"failure":   func() { r.do("failed", two, idem.ErrFailed) },
		"in flight": func() { r.do("running", two, idem.ErrInFlight) },
		"mismatch": func() {
			_, err := idem.Do(r.ctx, r.keys, r.paid("paid", "200"), two)
			r.want(err, idem.ErrMismatch)
		},
		"duplicate message": func() {
			handled, err := r.inbox.Do(r.ctx, "known", handle)
			if r.want(err, nil); handled {
				t.Error("a duplicate was handled")
			}
		},
	} {
		r.forget()
		if got := r.Trips(func() { call(); r.forget() }); got > 2 {
			t.Errorf("%s: %d trips, want 2 at most", name, got)
		}
		held := r.Proxy.HoldReplyTo(wire.Runs("rollback"))
		call() // it would not return if it waited
		<-held.Hit()
		held.Release()
	}
}

func TestOneCommitEach(t *testing.T) {
	r := openRig(t, pgx.QueryExecModeCacheStatement)
	commits := r.Proxy.Watch(wire.Runs("commit"))
	want := func(n int, what string, call func()) {
		t.Helper()
		before := commits.Hits()
		call()
		r.Settle()
		if got := commits.Hits() - before; got != n {
			t.Errorf("%s: %d commits, want %d", what, got, n)
		}
	}
	want(1, "Do", func() { r.do("a", two, nil) })
	want(1, "a failure that is stored", func() { r.do("b", then(idem.Terminal(errNo)), errNo) })
	want(0, "a failure that is not", func() { r.do("c", then(errNo), errNo) })
	want(0, "replay", func() { r.do("a", two, nil) })
	want(0, "replay in a new process", func() { r.forget(); r.do("a", two, nil) })
	handled := func() {
		_, err := r.inbox.Do(r.ctx, "a", handle)
		r.must(err)
	}
	want(1, "Inbox.Do", handled)
	want(0, "Inbox.Do of a duplicate", handled)
}

// Replays and refusals write nothing, not even a lock on a row, which would be a write too. The position in the
// write-ahead log is that of the whole server, so the test looks for a moment in which nobody else moves it.
func TestReplaysWriteNothing(t *testing.T) {
	r := openRig(t, pgx.QueryExecModeCacheStatement)
	if server, err := testdb.StartPostgres(t.Context()); err == nil {
		t.Cleanup(func() { _ = server.Close() })
		r = openRigAt(t, pgx.QueryExecModeCacheStatement, server.URL()) // nobody else is there
	}
	r.prepare()
	quiet := func(call func()) bool {
		before := r.log()
		for range 10 {
			call()
		}
		r.Settle()
		return r.log() == before
	}
	for name, call := range map[string]func(){
		"replay":                 func() { r.do("known", two, nil) },
		"replay, new process":    func() { r.forget(); r.do("known", two, nil) },
		"failure, new process":   func() { r.forget(); r.do("failed", two, idem.ErrFailed) },
		"in flight, new process": func() { r.forget(); r.do("running", two, idem.ErrInFlight) },
		"duplicate message": func() {
			_, err := r.inbox.Do(r.ctx, "known", handle)
			r.must(err)
		},
		"replay in a transaction of the caller's": func() { r.doTx("known", two, nil) },
	} {
		tries := 0
		for !quiet(call) {
			if tries++; tries == 100 {
				t.Errorf("%s writes", name)
				break
			}
		}
	}
	if quiet(func() { r.do(r.next(), two, nil) }) {
		t.Error("work leaves no trace in the log: the test tests nothing")
	}
}

func (r *rig) log() (position string) {
	r.Helper()
	r.must(r.Direct.QueryRow(r.ctx, "select pg_current_wal_insert_lsn()::text").Scan(&position))
	return position
}

// Errors that are answers must not cost the calls after them: what was prepared stays prepared.
func TestErrorsKeepStatementsPrepared(t *testing.T) {
	r := openRig(t, pgx.QueryExecModeCacheStatement)
	r.Exec("create table once (name text primary key); insert into once values ('taken')")
	r.prepare()
	call := func() { r.do(r.next(), two, nil) }
	callTx := func() { r.doTx(r.next(), two, nil) }
	if r.Warm(call) != 4 || r.Warm(callTx) != 6 {
		t.Fatal("the calls were not warm")
	}
	unique := func(ctx context.Context, t pgx.Tx) (string, error) {
		_, err := t.Exec(ctx, "insert into once values ($1)", "taken")
		return "", err
	}
	violated := func(err error) {
		t.Helper()
		var pgErr *pgconn.PgError
		if !errors.As(err, &pgErr) || pgErr.Code != "23505" {
			t.Errorf("got %v, want a unique violation", err)
		}
	}
	// pgx itself drops a statement of the closure that failed, and tells the server so before the next one: that is one
	// trip more.
	for name, failing := range map[string]struct {
		do    func()
		extra int
	}{
		"error":          {func() { r.do(r.next(), then(errNo), errNo) }, 0},
		"stored failure": {func() { r.do(r.next(), then(idem.Terminal(errNo)), errNo) }, 0},
		"replay":         {func() { r.forget(); r.do("known", two, nil) }, 0},
		"in flight":      {func() { r.do("running", two, idem.ErrInFlight) }, 0},
		"mismatch": {func() {
			_, err := idem.Do(r.ctx, r.keys, r.paid("paid", "200"), two)
			r.want(err, idem.ErrMismatch)
		}, 0},
		"unique violation": {func() {
			_, err := idem.Do(r.ctx, r.keys, r.key(r.next()), unique)
			violated(err)
		}, 1},
		"unique violation that is an answer": {func() {
			r.do(r.next(), func(ctx context.Context, t pgx.Tx) (string, error) {
				_, err := unique(ctx, t)
				return "", idem.Terminal(err)
			}, idem.ErrFailed)
		}, 1},
		"DoTx, error":          {func() { r.doTx(r.next(), then(errNo), errNo) }, 0},
		"DoTx, stored failure": {func() { r.doTx(r.next(), then(idem.Terminal(errNo)), errNo) }, 0},
		"DoTx, in flight":      {func() { r.doTx("running", two, idem.ErrInFlight) }, 0},
		"DoTx, unique violation": {func() {
			r.foreign(func(t pgx.Tx) {
				_, err := idem.DoTx(r.ctx, r.keys, t, r.key(r.next()), unique)
				violated(err)
			})
		}, 0}, // it has told the server while it left the savepoint
	} {
		t.Run(name, func(t *testing.T) {
			for what, next := range map[string]func(){"Do": call, "DoTx": callTx} {
				failing.do()
				failing.do()
				want := map[string]int{"Do": 4, "DoTx": 6}[what]
				if got := r.Trips(next); got != want+failing.extra {
					t.Errorf("the next %s took %d trips, want %d", what, got, want+failing.extra)
				}
				if got := r.Trips(next); got != want {
					t.Errorf("the %s after it took %d trips, want %d", what, got, want)
				}
			}
		})
	}
}
