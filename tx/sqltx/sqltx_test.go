package sqltx_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tx"
)

var errClosure = errors.New("the closure failed")

func succeed(context.Context, *sql.Tx) error { return nil }
func fail(context.Context, *sql.Tx) error    { return errClosure }

// What a failed COMMIT proves, by its error.
func TestCommitErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		err     error
		outcome holdfast.Outcome
		is      error
	}{
		{"none", nil, holdfast.Applied, nil},
		{"bad connection", driver.ErrBadConn, holdfast.Unknown, tx.ErrCommitUnknown},
		{"end of file", io.EOF, holdfast.Unknown, tx.ErrCommitUnknown},
		{"no code", errors.New("read: connection reset"), holdfast.Unknown, tx.ErrCommitUnknown},
		{"claims to be safe", safeError{}, holdfast.Unknown, tx.ErrCommitUnknown},
		{"context", context.DeadlineExceeded, holdfast.Unknown, tx.ErrCommitUnknown},
		{"server going down", stateError("57P01"), holdfast.Unknown, tx.ErrCommitUnknown},
		{"connection exception", stateError("08006"), holdfast.Unknown, tx.ErrCommitUnknown},
		{"completion unknown", stateError("40003"), holdfast.Unknown, tx.ErrCommitUnknown},
		{"deferred constraint", stateError("23505"), holdfast.NotApplied, stateError("23505")},
		{"serialization failure", stateError("40001"), holdfast.NotApplied, tx.ErrAttempts},
		{"aborted, pgx", errors.New("commit unexpectedly resulted in rollback"), holdfast.NotApplied, tx.ErrTxAborted},
		{"aborted, lib/pq", errors.New("pq: Could not complete operation in a failed transaction"), holdfast.NotApplied, tx.ErrTxAborted},
	} {
		f := &fake{on: func(_ context.Context, _ *fakeConn, call string) error {
			if call == "COMMIT" {
				return c.err
			}
			return nil
		}}
		_, db := f.open(t, tx.PostgreSQL, 1)
		err := db.With(tx.Options{Attempts: 2}).Do(t.Context(), succeed)
		if got := holdfast.OutcomeOf(err); got != c.outcome || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: got %v (%v), want %v (%v)", c.name, err, got, c.is, c.outcome)
		}
	}
}

type safeError struct{}

func (safeError) Error() string     { return "conn closed" }
func (safeError) SafeToRetry() bool { return true }

// T22: what may still hold an open transaction does not go back to the pool.
func TestT22_UncleanConnectionIsDiscarded(t *testing.T) {
	t.Parallel()
	stuck := errors.New("stuck")
	for _, c := range []struct {
		name    string
		dialect *tx.Dialect
		o       tx.Options
		fails   []string
		open    int // how many connections stay
	}{
		{"sound", tx.PostgreSQL, tx.Options{}, nil, 1},
		{"rollback fails", tx.PostgreSQL, tx.Options{}, []string{"ROLLBACK"}, 0},
		{"sound", tx.SQLite, tx.Options{}, nil, 1},
		{"the driver's rollback fails", tx.SQLite, tx.Options{}, []string{"ROLLBACK"}, 1}, // and another one does not
		{"both rollbacks fail", tx.SQLite, tx.Options{}, []string{"ROLLBACK", "rollback"}, 0},
		{"stays read-only", tx.SQLite, tx.Options{ReadOnly: true}, []string{"pragma query_only = off"}, 0},
		{"sound, read-only", tx.SQLite, tx.Options{ReadOnly: true}, nil, 1},
	} {
		f := &fake{on: func(_ context.Context, _ *fakeConn, call string) error {
			if slices.Contains(c.fails, call) {
				return stuck
			}
			return nil
		}}
		_, db := f.open(t, c.dialect, 1)
		err := db.With(c.o).Do(t.Context(), fail)
		if calls, open := f.state(); open != c.open || !errors.Is(err, errClosure) {
			t.Errorf("%s, %s: %d connections stay open, want %d; got %v after %s", c.dialect.Name, c.name, open, c.open, err, calls)
		}
	}
}

// A driver that waits for ever for the reply to a COMMIT or ROLLBACK holds up nobody for longer than CommitTimeout.
func TestEndIsBounded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		call    string
		work    func(context.Context, *sql.Tx) error
		outcome holdfast.Outcome
	}{{"COMMIT", succeed, holdfast.Unknown}, {"ROLLBACK", fail, holdfast.NotApplied}} {
		release := make(chan struct{})
		f := &fake{on: func(_ context.Context, _ *fakeConn, call string) error {
			if call == c.call {
				<-release
			}
			return nil
		}}
		pool, db := f.open(t, tx.PostgreSQL, 1)
		err := db.With(tx.Options{CommitTimeout: 300 * time.Millisecond}).Do(t.Context(), c.work)
		if got := holdfast.OutcomeOf(err); got != c.outcome {
			t.Errorf("%s: got %v (%v), want %v", c.call, err, got, c.outcome)
		}
		close(release)
		// The connection comes back when the driver lets go of it.
		conn, err := pool.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.Close()
	}
}

// After a restart of the server as many connections are dead as the pool holds. They cost no attempt.
func TestDeadConnectionsDoNotSurface(t *testing.T) {
	t.Parallel()
	const conns = 30
	restarted := false
	f := &fake{on: func(_ context.Context, c *fakeConn, call string) error {
		if restarted && c.number <= conns && call == "BEGIN" {
			c.dead.Store(true)
			return io.ErrUnexpectedEOF
		}
		return nil
	}}
	pool, db := f.open(t, tx.PostgreSQL, conns)
	var idle []*sql.Conn
	for range conns {
		conn, err := pool.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		idle = append(idle, conn)
	}
	for _, conn := range idle {
		_ = conn.Close()
	}
	restarted = true
	if err := db.With(tx.Options{Attempts: 1}).Do(t.Context(), succeed); err != nil {
		t.Error(err)
	}
}

// The context bounds the BEGIN, and nothing after it.
func TestBeginContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f := &fake{on: func(ctx context.Context, _ *fakeConn, call string) error {
		if call == "BEGIN" {
			cancel()
			<-ctx.Done() // a server that does not answer
			return ctx.Err()
		}
		return nil
	}}
	_, db := f.open(t, tx.PostgreSQL, 1)
	if err := db.Do(ctx, succeed); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the cancellation", err)
	}

	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	var begun context.Context
	f = &fake{on: func(ctx context.Context, _ *fakeConn, call string) error {
		if call == "BEGIN" {
			begun = ctx
		}
		return nil
	}}
	_, db = f.open(t, tx.PostgreSQL, 1)
	if err := db.Do(ctx, func(context.Context, *sql.Tx) error {
		cancel()
		return begun.Err()
	}); err != nil {
		t.Errorf("got %v, want the transaction untouched by the end of its caller's context", err)
	}
	if begun.Err() == nil {
		t.Error("the context of the BEGIN was never released")
	}
}

// A BEGIN IMMEDIATE that finds the database busy leaves no transaction, and the connection waits for locks as before.
func TestBusyLeavesNothing(t *testing.T) {
	t.Parallel()
	f := &fake{on: func(_ context.Context, _ *fakeConn, call string) error {
		if strings.Contains(call, "begin immediate") {
			return errors.New("stop")
		}
		return nil
	}}
	_, db := f.open(t, tx.SQLite, 1)
	if err := db.Do(t.Context(), succeed); holdfast.OutcomeOf(err) != holdfast.NotApplied {
		t.Errorf("got %v, want not applied", err)
	}
	calls, open := f.state()
	const want = "pragma busy_timeout | pragma busy_timeout = 50 | BEGIN | " +
		"rollback; begin immediate; pragma busy_timeout = 5000 | pragma busy_timeout = 5000 | ROLLBACK"
	if calls != want || open != 1 {
		t.Errorf("with %d connections left, got\n%s, want\n%s", open, calls, want)
	}
}
