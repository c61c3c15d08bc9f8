package txtest

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tx"
)

// A fixture is the database of one rule: two accounts with a balance of 100 each.
type fixture[T any] struct {
	*testing.T
	Database[T]
	ctx context.Context // ends when the rule has taken too long
}

const addSQL = "update account set balance = balance + $2 where id = $1"

var errRefused = errors.New("txtest: refused by the closure")

func (f *fixture[T]) setup() {
	f.Helper()
	f.exec("create table account (id integer primary key, balance integer not null)")
	f.exec("insert into account (id, balance) values (1, 100), (2, 100)")
}

// exec runs a statement of the test's own, outside any transaction.
func (f *fixture[T]) exec(query string, args ...any) {
	f.Helper()
	if _, err := f.DB.Conn().Exec(f.ctx, query, args...); err != nil {
		f.Fatalf("%s: %v", query, err)
	}
}

// begin begins a transaction as a caller does that has its own. It is rolled back in the end, if it is still open.
func (f *fixture[T]) begin() T {
	f.Helper()
	t, err := f.Begin(f.ctx)
	f.must(err)
	f.Cleanup(func() { _ = f.Rollback(context.Background(), t) })
	return t
}

// add adds amount to an account, in t.
func (f *fixture[T]) add(ctx context.Context, t T, id, amount int) error {
	_, err := f.DB.Tx(t).Exec(ctx, addSQL, id, amount)
	return err
}

// balance reads an account in t.
func (f *fixture[T]) balance(ctx context.Context, t T, id int) (balance int64, err error) {
	err = f.DB.Tx(t).QueryRow(ctx, "select balance from account where id = $1", id).Scan(&balance)
	return balance, err
}

// wantBalance compares what is committed.
func (f *fixture[T]) wantBalance(id int, want int64) {
	f.Helper()
	var got int64
	if err := f.DB.Conn().QueryRow(f.ctx, "select balance from account where id = $1", id).Scan(&got); err != nil {
		f.Fatalf("reading account %d: %v", id, err)
	}
	if got != want {
		f.Errorf("account %d has %d, want %d", id, got, want)
	}
}

// wantAborted checks an error that proves that nothing was applied.
func (f *fixture[T]) wantAborted(err, cause error) *tx.AbortError {
	f.Helper()
	var aborted *tx.AbortError
	if !errors.As(err, &aborted) {
		f.Fatalf("got the error %v (%T), want a *tx.AbortError", err, err)
	}
	if cause != nil && !errors.Is(err, cause) {
		f.Errorf("got the error %v, want it to wrap %v", err, cause)
	}
	if got := holdfast.OutcomeOf(err); got != holdfast.NotApplied {
		f.Errorf("the outcome of %v is %v, want %v", err, got, holdfast.NotApplied)
	}
	return aborted
}

// wantEnded checks the error of a transaction that was over before its time.
func (f *fixture[T]) wantEnded(err error) {
	f.Helper()
	var ended *tx.EndedError
	if !errors.As(err, &ended) || !errors.Is(err, tx.ErrEnded) {
		f.Fatalf("got the error %v (%T), want a *tx.EndedError", err, err)
	}
	if got := holdfast.OutcomeOf(err); got != holdfast.Unknown {
		f.Errorf("the outcome of %v is %v, want %v", err, got, holdfast.Unknown)
	}
}

// wantIdlePool waits until every connection has come back. A rollback that nobody waits for may still be under way.
func (f *fixture[T]) wantIdlePool() {
	f.Helper()
	for end := time.Now().Add(deadline); f.InUse() > 0; runtime.Gosched() {
		if time.Now().After(end) {
			f.Fatalf("%d connections did not come back to the pool", f.InUse())
		}
	}
}

// must ends the rule if err is not nil.
func (f *fixture[T]) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// check notes err if it is not nil. Unlike must it is for any goroutine.
func (f *fixture[T]) check(err error) {
	f.Helper()
	if err != nil {
		f.Error(err)
	}
}

// conflict provokes an error that only a fresh transaction can cure, in t. On an engine with a single writer it is that
// of a second one.
func (f *fixture[T]) conflict(ctx context.Context, t T) error {
	if !f.DB.Dialect().Capabilities.ConcurrentWriters {
		_, err := f.DB.Conn().Exec(ctx, addSQL, 2, 1)
		return err
	}
	_, err := f.DB.Tx(t).Exec(ctx, "do $$ begin raise exception 'provoked' using errcode = 'serialization_failure'; end $$")
	return err
}

// protect runs fn on a goroutine of its own and returns what it panicked with, and whether it returned.
func protect(fn func()) (panicked any, returned bool) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { panicked = recover() }()
		fn()
		returned = true
	}()
	<-done
	return panicked, returned
}
