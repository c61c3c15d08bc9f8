package txtest

import (
	"context"
	"errors"
	"sync"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tx"
)

func retryRules[T any]() []rule[T] {
	return []rule[T]{
		{
			name: "serialization failure", rule: "A closure that the database could not serialize runs again, whole, on a fresh snapshot.",
			needs: isolationLevels, check: serializationFailure[T],
		},
		{
			name: "deadlock", rule: "The victim of a deadlock runs again, and both sides succeed.",
			needs: concurrentWriters, check: deadlock[T],
		},
		{
			name: "busy", rule: "A writer that found the database busy tries again, and gets in when the other is done.",
			needs: singleWriter, check: busy[T],
		},
		{name: "attempts", rule: "Attempts caps the runs; the error is ErrAttempts and the last conflict.", check: attempts[T]},
		{name: "observed", rule: "Each retry is told to the observer, with its attempt and reason.", check: observed[T]},
		{name: "permanent", rule: "An error that a fresh transaction does not cure is not tried again.", check: permanent[T]},
		{
			name: "storm", rule: "Concurrent read-modify-write closures at SERIALIZABLE lose no update.",
			check: storm[T], conns: 8,
		},
	}
}

func serializationFailure[T any](f *fixture[T]) {
	db := f.DB.With(tx.Options{Isolation: tx.RepeatableRead})
	var seen []int
	f.must(db.Do(f.ctx, func(ctx context.Context, t T) error {
		seen = append(seen, tx.Attempt(ctx))
		balance, err := f.balance(ctx, t, 1)
		f.must(err)
		if tx.Attempt(ctx) == 1 { // another writes what this one has read
			f.must(f.DB.Do(f.ctx, func(ctx context.Context, t T) error { return f.add(ctx, t, 1, 1) }))
		}
		_, err = f.DB.Tx(t).Exec(ctx, "update account set balance = $1 where id = 1", balance*2)
		return err
	}))
	if len(seen) != 2 || seen[0] != 1 || seen[1] != 2 {
		f.Errorf("the attempts were %v, want 1 and 2", seen)
	}
	f.wantBalance(1, 202)
}

func deadlock[T any](f *fixture[T]) {
	var first, done sync.WaitGroup
	first.Add(2)
	var mu sync.Mutex
	runs := 0
	for _, order := range [][2]int{{1, 2}, {2, 1}} {
		done.Go(func() {
			f.check(f.DB.Do(f.ctx, func(ctx context.Context, t T) error {
				mu.Lock()
				runs++
				mu.Unlock()
				if err := f.add(ctx, t, order[0], 1); err != nil {
					return err
				}
				if tx.Attempt(ctx) == 1 {
					first.Done()
					first.Wait()
				}
				return f.add(ctx, t, order[1], 1)
			}))
		})
	}
	done.Wait()
	if runs < 3 {
		f.Errorf("the closures ran %d times, want at least 3: the deadlock did not happen", runs)
	}
	f.wantBalance(1, 102)
	f.wantBalance(2, 102)
}

func busy[T any](f *fixture[T]) {
	holder := f.begin()
	f.must(f.add(f.ctx, holder, 1, 1))
	retried := 0
	db := f.DB.Observed(holdfast.ObserverFunc(func(ctx context.Context, e holdfast.Event) {
		retried++
		if e.Kind == tx.EventRetried && retried == 1 {
			f.must(f.Commit(ctx, holder))
		}
	}))
	runs := 0
	f.must(db.Do(f.ctx, func(ctx context.Context, t T) error {
		runs++
		return f.add(ctx, t, 1, 1)
	}))
	if retried == 0 || runs != 1 {
		f.Errorf("tried again %d times with %d runs of the closure, want at least one and one", retried, runs)
	}
	f.wantBalance(1, 102)
}

func attempts[T any](f *fixture[T]) {
	for _, limit := range []int{1, 3} {
		runs := 0
		err := f.DB.With(tx.Options{Attempts: limit}).Do(f.ctx, func(ctx context.Context, t T) error {
			runs++
			if got := tx.Attempt(ctx); got != runs {
				f.Errorf("the attempt is %d, want %d", got, runs)
			}
			return f.conflict(ctx, t)
		})
		aborted := f.wantAborted(err, tx.ErrAttempts)
		if runs != limit || aborted.Attempts != limit || aborted.Class != tx.Retryable || aborted.Err == nil {
			f.Errorf("the closure ran %d times and the error is %+v, want %d runs and the conflict", runs, aborted, limit)
		}
	}
	if got := tx.Attempt(f.ctx); got != 0 {
		f.Errorf("the attempt outside a closure is %d, want 0", got)
	}
}

func observed[T any](f *fixture[T]) {
	var events []holdfast.Event
	ctx := holdfast.WithCorrelationID(f.ctx, "request-1")
	db := f.DB.Observed(holdfast.ObserverFunc(func(_ context.Context, e holdfast.Event) { events = append(events, e) }))
	f.must(db.Do(ctx, func(ctx context.Context, t T) error {
		if tx.Attempt(ctx) < 3 {
			return f.conflict(ctx, t)
		}
		return nil
	}))
	if len(events) != 2 {
		f.Fatalf("got %d events, want 2: %+v", len(events), events)
	}
	for i, e := range events {
		if e.Kind != tx.EventRetried || e.Attempt != i+1 || f.DB.Classify(e.Err) != tx.Retryable || e.CorrelationID != "request-1" {
			f.Errorf("event %d is %+v", i, e)
		}
	}
}

func permanent[T any](f *fixture[T]) {
	runs := 0
	err := f.DB.Do(f.ctx, func(ctx context.Context, t T) error {
		runs++
		_, err := f.DB.Tx(t).Exec(ctx, "insert into account (id, balance) values (1, 0)")
		return err
	})
	if aborted := f.wantAborted(err, nil); runs != 1 || aborted.Class != tx.Unique || errors.Is(err, tx.ErrAttempts) {
		f.Errorf("the closure ran %d times and the error is %+v, want one run and a unique violation", runs, aborted)
	}
}

func storm[T any](f *fixture[T]) {
	const callers, each = 8, 5
	// The wait for a lock is short here, so the cap must be far away.
	db := f.DB.With(tx.Options{Isolation: tx.Serializable, Attempts: 1000})
	var done sync.WaitGroup
	start := time.Now()
	for range callers {
		done.Go(func() {
			for range each {
				f.check(db.Do(f.ctx, func(ctx context.Context, t T) error {
					balance, err := f.balance(ctx, t, 1)
					if err != nil {
						return err
					}
					_, err = f.DB.Tx(t).Exec(ctx, "update account set balance = $2 where id = $1", 1, balance+1)
					return err
				}))
			}
		})
	}
	done.Wait()
	f.Logf("%d transactions in %v", callers*each, time.Since(start).Round(time.Millisecond))
	f.wantBalance(1, 100+callers*each)
}
