package txtest

import (
	"context"
	"errors"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tx"
)

func cancelRules[T any]() []rule[T] {
	return []rule[T]{
		{name: "cancelled before", rule: "A context that has ended begins nothing, and its cause comes back.", check: cancelledBefore[T]},
		{
			name: "cancelled in the pool", rule: "A caller that waits for a connection stops when its context ends.",
			check: cancelledInPool[T], conns: 1,
		},
		{
			name: "cancelled in a query", rule: "A query stops when its context ends, and the connection is free again at once.",
			check: cancelledInQuery[T], conns: 2,
		},
		{
			name: "cancelled before a lock", rule: "A caller that waits for the write lock stops when its context ends.",
			needs: singleWriter, check: cancelledBeforeLock[T],
		},
		{
			name: "cancelled in the closure", rule: "A context that ends between statements fails the next, and nothing is applied.",
			check: cancelledInClosure[T], conns: 1,
		},
		{
			name: "cancelled after nil", rule: "A nil return is a decision: a context that ended before the commit does not undo it.",
			check: cancelledAfterNil[T], conns: 1,
		},
		{
			name: "cancelled while pausing", rule: "The pause before a retry stops when the context ends; the error is its cause and the conflict.",
			check: cancelledWhilePausing[T],
		},
	}
}

func cancelledBefore[T any](f *fixture[T]) {
	cause := errors.New("txtest: gave up")
	ctx, cancel := context.WithCancelCause(f.ctx)
	cancel(cause)
	f.wantAborted(f.DB.Do(ctx, func(context.Context, T) error {
		f.Error("the closure ran")
		return nil
	}), cause)
}

func cancelledInPool[T any](f *fixture[T]) {
	holder := f.begin()
	ctx, cancel := context.WithTimeout(f.ctx, 20*time.Millisecond)
	defer cancel()
	f.wantAborted(f.DB.Do(ctx, func(context.Context, T) error {
		f.Error("the closure ran")
		return nil
	}), context.DeadlineExceeded)
	f.must(f.Rollback(f.ctx, holder))
	f.must(f.DB.Do(f.ctx, func(ctx context.Context, t T) error { return f.add(ctx, t, 1, 1) }))
	f.wantBalance(1, 101)
}

// slow returns a query that runs for far longer than a rule may.
func slow(d *tx.Dialect) string {
	if d == tx.SQLite {
		return "with recursive n (i) as (select 1 union all select i + 1 from n) select max(i) from n"
	}
	return "select pg_sleep(600)"
}

// running returns a function that waits until the slow query of conn runs. PostgreSQL drops a request to cancel that
// overtakes its query, and would then run the query to its end.
func (f *fixture[T]) running(conn tx.Tx) (wait func()) {
	f.Helper()
	if conn.Dialect() != tx.PostgreSQL {
		return func() { time.Sleep(50 * time.Millisecond) } // SQLite remembers that it was interrupted, and cannot be watched
	}
	var pid int
	f.must(conn.QueryRow(f.ctx, "select pg_backend_pid()").Scan(&pid))
	return func() {
		for asleep := false; !asleep; {
			query := "select exists (select from pg_stat_activity where pid = $1::integer and wait_event = 'PgSleep')"
			if err := f.DB.Conn().QueryRow(f.ctx, query, pid).Scan(&asleep); err != nil {
				f.Error(err)
				return
			}
		}
	}
}

func cancelledInQuery[T any](f *fixture[T]) {
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	var start time.Time
	err := f.DB.Do(ctx, func(ctx context.Context, t T) error {
		f.must(f.add(ctx, t, 1, 1))
		conn := f.DB.Tx(t)
		seen := f.running(conn)
		go func() {
			defer cancel()
			seen()
			start = time.Now()
		}()
		_, err := conn.Exec(ctx, slow(f.DB.Dialect()))
		return err
	})
	f.wantAborted(err, nil)
	f.wantIdlePool()
	if took := time.Since(start); took > deadline/2 {
		f.Errorf("the connection came back after %v", took)
	}
	f.wantBalance(1, 100)
	f.must(f.DB.Do(f.ctx, func(ctx context.Context, t T) error { return f.add(ctx, t, 1, 1) }))
}

func cancelledBeforeLock[T any](f *fixture[T]) {
	holder := f.begin()
	f.must(f.add(f.ctx, holder, 1, 1))
	ctx, cancel := context.WithTimeout(f.ctx, 50*time.Millisecond)
	defer cancel()
	// The cap of attempts must not be what ends the wait.
	err := f.DB.With(tx.Options{Attempts: 1 << 20}).Do(ctx, func(context.Context, T) error {
		f.Error("the closure ran")
		return nil
	})
	f.wantAborted(err, context.DeadlineExceeded)
	f.must(f.Rollback(f.ctx, holder))
}

func cancelledInClosure[T any](f *fixture[T]) {
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	err := f.DB.Do(ctx, func(ctx context.Context, t T) error {
		f.must(f.add(ctx, t, 1, 1))
		cancel()
		return f.add(ctx, t, 1, 1)
	})
	f.wantAborted(err, context.Canceled)
	f.wantBalance(1, 100)
}

func cancelledAfterNil[T any](f *fixture[T]) {
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	err := f.DB.Do(ctx, func(ctx context.Context, t T) error {
		f.must(f.add(ctx, t, 1, 1))
		f.must(f.DB.Defer(ctx, t, &tx.Stmt{SQL: addSQL, Args: []any{2, 1}}))
		cancel()
		return nil
	})
	if holdfast.OutcomeOf(err) != holdfast.Applied {
		f.Errorf("the outcome is %v, want it applied", err)
	}
	f.wantBalance(1, 101)
	f.wantBalance(2, 101)
}

func cancelledWhilePausing[T any](f *fixture[T]) {
	cause := errors.New("txtest: gave up")
	ctx, cancel := context.WithCancelCause(f.ctx)
	db := f.DB.Observed(holdfast.ObserverFunc(func(context.Context, holdfast.Event) { cancel(cause) }))
	err := db.Do(ctx, func(ctx context.Context, t T) error { return f.conflict(ctx, t) })
	if aborted := f.wantAborted(err, cause); aborted.Class != tx.Retryable {
		f.Errorf("the class is %v, want %v", aborted.Class, tx.Retryable)
	}
}
