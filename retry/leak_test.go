package retry_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/retry"
)

// Whatever ends a call, no goroutine outlives it: a bubble that has one left fails.
func TestNothingIsLeftRunning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := retry.New(&retry.Options{
			Attempts: 3, AttemptTimeout: time.Hour, BaseDelay: time.Second, Elapsed: 24 * time.Hour, Breaker: retry.NewBreaker(nil),
		})
		begun := time.Now()
		var all sync.WaitGroup
		for name, fn := range map[string]func(ctx context.Context, cancel func()) error{
			"succeeds":          func(context.Context, func()) error { return nil },
			"fails":             func(context.Context, func()) error { return errBoom },
			"is permanent":      func(context.Context, func()) error { return retry.Permanent(errBoom) },
			"is cancelled":      func(ctx context.Context, cancel func()) error { cancel(); return ctx.Err() },
			"cancels the sleep": func(_ context.Context, cancel func()) error { time.AfterFunc(time.Millisecond, cancel); return errBoom },
			"panics":            func(context.Context, func()) error { panic("gone") },
			"exits":             func(context.Context, func()) error { runtime.Goexit(); return nil },
		} {
			all.Go(func() {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				defer func() { _ = recover() }()
				err := retry.Run(ctx, p, retry.Idempotent, func(ctx context.Context, _ retry.Attempt) error { return fn(ctx, cancel) })
				if (err == nil) != (name == "succeeds") {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		all.Wait()
		if took := time.Since(begun); took > 3*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}
