package tx_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/tx"
)

// Closures that run again do so one at a time, of whatever DB on the pool, and those that run for the first time do not wait.
func TestClosuresRunAgainInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const callers = 20
		db := tx.New[*int](memory{})
		var again, most atomic.Int64
		first := make(chan struct{})
		var all sync.WaitGroup
		for i := range callers {
			all.Go(func() {
				one := db
				if i%2 == 0 {
					one = db.With(tx.Options{Isolation: tx.Serializable})
				}
				err := one.Do(t.Context(), func(ctx context.Context, _ *int) error {
					if tx.Attempt(ctx) == 1 {
						<-first // all of them are in at once
						return errConflict
					}
					n := again.Add(1)
					defer again.Add(-1)
					for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
					}
					time.Sleep(5 * time.Millisecond)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		close(first)
		all.Wait()
		if most.Load() != 1 {
			t.Errorf("%d closures ran again at the same time", most.Load())
		}
	})
}

// A closure that takes its time holds up the others no longer than half a second, and one that panics or exits not at all.
func TestATurnIsNoLock(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(){
		"slow":   func() { time.Sleep(time.Hour) },
		"panics": func() { panic("on purpose") },
		"exits":  runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				db := tx.New[*int](memory{})
				inTurn := make(chan struct{})
				var all sync.WaitGroup
				all.Go(func() {
					defer func() { _ = recover() }()
					_ = db.Do(t.Context(), func(ctx context.Context, _ *int) error {
						if tx.Attempt(ctx) == 1 {
							return errConflict
						}
						close(inTurn)
						leave()
						return nil
					})
				})
				<-inTurn
				begun := time.Now()
				err := db.Do(t.Context(), func(ctx context.Context, _ *int) error {
					if tx.Attempt(ctx) == 1 {
						return errConflict
					}
					return nil
				})
				if waited := time.Since(begun); err != nil || waited > 600*time.Millisecond || name != "slow" && waited > 10*time.Millisecond {
					t.Errorf("waited %v, %v", waited, err)
				}
				all.Wait()
			})
		})
	}
}

// A context that ends while a closure waits for its turn stops it, and what it was to run again for is still told.
func TestAContextEndsTheWaitForATurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := tx.New[*int](memory{})
		inTurn, done := make(chan struct{}), make(chan struct{})
		var all sync.WaitGroup
		all.Go(func() {
			_ = db.Do(t.Context(), func(ctx context.Context, _ *int) error {
				if tx.Attempt(ctx) == 1 {
					return errConflict
				}
				close(inTurn)
				<-done
				return nil
			})
		})
		<-inTurn
		enough := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, enough)
		defer cancel()
		runs := 0
		err := db.Do(ctx, func(context.Context, *int) error { runs++; return errConflict })
		var aborted *tx.AbortError
		if !errors.As(err, &aborted) || !errors.Is(aborted.Stop, enough) || !errors.Is(err, errConflict) || runs != 1 {
			t.Errorf("%d runs, %v", runs, err)
		}
		close(done)
		all.Wait()
	})
}
