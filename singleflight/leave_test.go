package singleflight_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/singleflight"
)

// S1: the context of the first caller is not that of the others.
func TestS1ALeaderWhoIsCancelledTakesNobodyAlong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var loads atomic.Int64
		seen := &recorder{}
		group := singleflight.New[string, int](&singleflight.Options{Observer: seen})
		ctx, cancel := context.WithCancel(holdfast.WithCorrelationID(t.Context(), "the leader's"))
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := group.Do(ctx, "key", slow(7, &loads)); !errors.Is(err, context.Canceled) {
				t.Errorf("the leader got %v", err)
			}
		})
		synctest.Wait()
		for range many {
			all.Go(func() {
				waiter := holdfast.WithCorrelationID(t.Context(), "a waiter's")
				if got, err := group.Do(waiter, "key", slow(8, &loads)); got != 7 || err != nil {
					t.Errorf("a waiter got %d, %v", got, err)
				}
			})
		}
		synctest.Wait()
		cancel()
		all.Wait()
		if loads.Load() != 1 {
			t.Errorf("%d loads", loads.Load())
		}
		shared := seen.of(singleflight.EventShared)
		if len(shared) != many || shared[0].CorrelationID != "a waiter's" || shared[0].Elapsed != loading || shared[0].Name != "singleflight" ||
			len(shared[0].Key) != 16 || len(seen.of(singleflight.EventAbandoned)) != 0 {
			t.Errorf("events: %+v", seen.events)
		}
	})
}

// S6: a deadline is the caller's.
func TestS6AWaiterLeavesAtItsDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var loads atomic.Int64
		var group singleflight.Group[string, int]
		var all sync.WaitGroup
		all.Go(func() {
			if got, err := group.Do(t.Context(), "key", slow(7, &loads)); got != 7 || err != nil {
				t.Errorf("the leader got %d, %v", got, err)
			}
		})
		synctest.Wait()
		begun := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), loading/10)
		defer cancel()
		if _, err := group.Do(ctx, "key", slow(8, &loads)); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != loading/10 {
			t.Errorf("got %v after %v", err, time.Since(begun))
		}
		if _, err := group.Do(ctx, "another", slow(8, &loads)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a context that had ended: %v", err)
		}
		all.Wait()
		if loads.Load() != 1 {
			t.Errorf("%d loads", loads.Load())
		}
	})
}

func TestTheContextEndsWhenTheLastWaiterLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		type mark struct{}
		seen := &recorder{}
		group := singleflight.New[string, int](&singleflight.Options{Observer: seen, Name: "reports"})
		why := errors.New("the user went away")
		ended := make(chan error, 1)
		first, leaveFirst := context.WithCancelCause(context.WithValue(t.Context(), mark{}, "the leader's"))
		second, leaveSecond := context.WithCancelCause(t.Context())
		for _, ctx := range []context.Context{first, second} {
			go func() {
				_, err := group.Do(ctx, "key", func(ctx context.Context) (int, error) {
					if ctx.Value(mark{}) != "the leader's" {
						t.Error("the values of the leader are lost")
					}
					<-ctx.Done()
					ended <- context.Cause(ctx)
					return 0, nil
				})
				if err == nil {
					t.Error("who left got no error")
				}
			}()
			synctest.Wait()
		}
		leaveFirst(nil)
		synctest.Wait()
		select {
		case <-ended:
			t.Fatal("one waits yet")
		default:
		}
		leaveSecond(why)
		if err := <-ended; !errors.Is(err, why) {
			t.Errorf("the cause is %v", err)
		}
		synctest.Wait()
		if left := seen.of(singleflight.EventAbandoned); len(left) != 1 || !errors.Is(left[0].Err, why) || left[0].Name != "reports" {
			t.Errorf("events: %+v", seen.events)
		}
	})
}

func TestALeftFlightIsNotJoined(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var group singleflight.Group[string, int]
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			_, _ = group.Do(ctx, "key", func(context.Context) (int, error) {
				time.Sleep(loading) // whatever its context says
				return 1, nil
			})
		}()
		synctest.Wait()
		cancel()
		synctest.Wait()
		if got, err := group.Do(t.Context(), "key", func(context.Context) (int, error) { return 2, nil }); got != 2 || err != nil {
			t.Errorf("got %d, %v", got, err)
		}
		if err := group.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
