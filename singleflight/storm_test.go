package singleflight_test

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/singleflight"
)

// S7: a caller that comes after a call has ended never gets its result.
func TestS7AMillionCallsInARowAreAMillionCalls(t *testing.T) {
	t.Parallel()
	var group singleflight.Group[string, int]
	const calls = 1_000_000
	for i := range calls {
		if got, err := group.Do(context.Background(), "key", func(context.Context) (int, error) { return i, nil }); got != i || err != nil {
			t.Fatalf("call %d got %d, %v", i, got, err)
		}
	}
	for i := range calls / 20 { // on goroutines of their own
		if got, err := group.Do(t.Context(), "key", func(context.Context) (int, error) { return i, nil }); got != i || err != nil {
			t.Fatalf("call %d got %d, %v", i, got, err)
		}
	}
}

// S14: for the race detector. Each call has a value of its own, so who gets one twice joined a call that had ended.
func TestS14SixtyFourAtOnce(t *testing.T) {
	t.Parallel()
	var group singleflight.Group[int, int64]
	var clock atomic.Int64
	const calls = 2_000
	var all sync.WaitGroup
	for worker := range 64 {
		all.Go(func() {
			ctx, last := context.Background(), [4]int64{}
			for i := range calls {
				if (worker+i)%3 == 0 {
					limited, cancel := context.WithTimeout(ctx, time.Duration(i%50)*time.Microsecond)
					_, _ = group.Do(limited, i%4, func(context.Context) (int64, error) { return clock.Add(1), nil })
					cancel()
					continue
				}
				if i%7 == 0 {
					group.Invalidate(i % 4)
				}
				got, err := group.Do(ctx, i%4, func(context.Context) (int64, error) {
					runtime.Gosched()
					return clock.Add(1), nil
				})
				if err != nil || got == last[i%4] {
					t.Errorf("got %d after %d, %v", got, last[i%4], err)
				}
				last[i%4] = got
			}
		})
	}
	all.Wait()
	if err := group.Close(context.Background()); err != nil {
		t.Error(err)
	}
}
