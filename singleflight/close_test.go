package singleflight_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/singleflight"
)

// S19: what nobody waits for any more counts at shutdown too. That no goroutine is left is what ends the bubble of synctest.
func TestS19CloseWaitsForEveryFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var group singleflight.Group[string, int]
		var ended atomic.Int64
		stubborn := func(context.Context) (int, error) {
			time.Sleep(loading)
			ended.Add(1)
			return 1, nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		for _, key := range []string{"waited for", "forgotten", "left"} {
			caller := t.Context()
			if key == "left" {
				caller = ctx
			}
			go func() { _, _ = group.Do(caller, key, stubborn) }()
		}
		go func() { _, _ = group.Do(context.Background(), "inline", stubborn) }()
		synctest.Wait()
		group.Invalidate("forgotten")
		cancel()
		synctest.Wait()
		if err := group.Close(t.Context()); err != nil || ended.Load() != 4 {
			t.Errorf("%d had ended, %v", ended.Load(), err)
		}
		if _, err := group.Do(t.Context(), "key", stubborn); !errors.Is(err, singleflight.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

func TestCloseEndsWhatItCannotWaitFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var group singleflight.Group[string, int]
		var all sync.WaitGroup
		for _, key := range []string{"one", "forgotten"} {
			all.Go(func() {
				_, err := group.Do(t.Context(), key, func(ctx context.Context) (int, error) {
					<-ctx.Done()
					return 0, context.Cause(ctx)
				})
				if !errors.Is(err, singleflight.ErrClosed) {
					t.Errorf("a caller got %v", err)
				}
			})
		}
		synctest.Wait()
		group.Invalidate("forgotten")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := group.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close: %v", err)
		}
		all.Wait()
		if err := group.Close(t.Context()); err != nil {
			t.Errorf("Close again: %v", err)
		}
	})
}
