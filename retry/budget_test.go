package retry_test

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/holdfast-go/holdfast/retry"
)

// R8: a lone caller is limited too, and keeps the error.
func TestR08ABudgetLimitsSequentialCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const calls, burst = 1000, 7
		p := retry.New(&retry.Options{Attempts: 4, Budget: retry.NewBudget(0.1, burst)})
		runs := 0
		for range calls {
			_, err := retry.Do(t.Context(), p, retry.Idempotent, func(context.Context, retry.Attempt) (int, error) {
				runs++
				return 0, errBoom
			})
			if !errors.Is(err, errBoom) {
				t.Fatal(err)
			}
		}
		if runs != calls+burst {
			t.Errorf("%d runs for %d calls", runs, calls)
		}
		// It does not sleep for nothing, and cuts nothing off.
		begun := time.Now()
		_, err := retry.Do(t.Context(), p, retry.Idempotent, func(ctx context.Context, _ retry.Attempt) (int, error) {
			return 0, errors.Join(errBoom, ctx.Err())
		})
		if !errors.Is(err, retry.ErrBudget) || time.Since(begun) != 0 {
			t.Errorf("took %v: %v", time.Since(begun), err)
		}
		// 30 calls that succeed pay for 3 retries.
		for range 30 {
			_, _ = retry.Do(t.Context(), p, retry.Idempotent, func(context.Context, retry.Attempt) (int, error) { return 0, nil })
		}
		runs = 0
		if _, err = retry.Do(t.Context(), p, retry.Idempotent, fails(&runs, make200(errBoom)...)); runs != 4 || !errors.Is(err, retry.ErrAttempts) {
			t.Errorf("%d runs: %v", runs, err)
		}
	})
}

func TestR08ABudgetIsExactUnderConcurrency(t *testing.T) {
	t.Parallel()
	const callers, burst = 64, 3_000_000
	p := retry.New(&retry.Options{
		Attempts: retry.NoLimit, Budget: retry.NewBudget(0, burst), BackOff: func() backoff.BackOff { return &backoff.ZeroBackOff{} },
	})
	var runs atomic.Int64
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			mine := int64(0) // each on its own, so that they meet at the budget
			_ = retry.Run(t.Context(), p, retry.Idempotent, func(context.Context, retry.Attempt) error { mine++; return errBoom })
			runs.Add(mine)
		})
	}
	all.Wait()
	if runs.Load() != callers+burst {
		t.Errorf("%d runs, want %d", runs.Load(), callers+burst)
	}
}

func TestBudgetsOfAllSizes(t *testing.T) {
	t.Parallel()
	zero := func() backoff.BackOff { return &backoff.ZeroBackOff{} }
	for _, c := range []struct {
		ratio float64
		burst int
		runs  int
	}{
		{math.NaN(), 0, 1}, {-1, -1, 1}, {math.Inf(1), 1, 2}, {1e300, math.MaxInt, 4}, {0, math.MaxInt, 4}, {0.5, math.MinInt, 1},
	} {
		p := retry.New(&retry.Options{Attempts: 4, Budget: retry.NewBudget(c.ratio, c.burst), BackOff: zero})
		_, _ = retry.Do(t.Context(), p, retry.Read, func(context.Context, retry.Attempt) (int, error) { return 0, nil })
		runs := 0
		if _, _ = retry.Do(t.Context(), p, retry.Read, fails(&runs, make200(errBoom)...)); runs != c.runs {
			t.Errorf("ratio %v, burst %d: %d runs, want %d", c.ratio, c.burst, runs, c.runs)
		}
	}
}

// A caller who leaves before the next attempt, or a breaker that does not let it through, costs the others nothing.
func TestABudgetPaysForAttemptsOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const burst = 3
		second := func() backoff.BackOff { return backoff.NewConstantBackOff(time.Second) }
		b := retry.NewBudget(0, burst)
		p := retry.New(&retry.Options{Attempts: burst + 1, Budget: b, BackOff: second})
		for range 10 * burst {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Millisecond, cancel)
			if err := retry.Run(ctx, p, retry.Read, func(context.Context, retry.Attempt) error { return errBoom }); !errors.Is(err, context.Canceled) {
				t.Fatalf("got %v", err)
			}
		}
		runs := 0
		if _, err := retry.Do(t.Context(), p, retry.Read, fails(&runs, make200(errBoom)...)); runs != burst+1 {
			t.Errorf("%d runs: %v", runs, err)
		}
	})
}
