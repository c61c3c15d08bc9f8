package retry_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v4"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/retry"
)

// A million calls leave nothing behind, and neither do many at once, some of which fail, panic or are cancelled.
func TestManyCalls(t *testing.T) {
	t.Parallel()
	total := 1_000_000
	if testing.Short() {
		total = 50_000
	}
	obs := holdfast.ObserverFunc(func(context.Context, holdfast.Event) {})
	p := retry.New(&retry.Options{
		BackOff: func() backoff.BackOff { return &backoff.ZeroBackOff{} }, Budget: retry.NewBudget(1, 1_000_000),
		Breaker: retry.NewBreaker(&retry.BreakerOptions{Failures: 1_000_000}), Observer: obs, Attempts: 2, Elapsed: time.Hour,
	})
	call := func(i int) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		defer func() { _ = recover() }()
		v, err := retry.Do(ctx, p, retry.Keyed("k"), func(_ context.Context, a retry.Attempt) (int, error) {
			switch {
			case i%97 == 0:
				panic("gone")
			case i%89 == 0:
				cancel()
				return 0, context.Canceled
			case i%5 == 0 && a.Number == 1:
				return 0, errBoom
			}
			return i, nil
		})
		if i%89 != 0 && (v != i || err != nil) {
			t.Errorf("call %d: got %d, %v", i, v, err)
		}
	}
	for i := range total {
		call(i + 1)
	}
	var all sync.WaitGroup
	for worker := range 64 {
		all.Go(func() {
			for i := range total / 64 {
				call(worker*total + i + 1)
			}
		})
	}
	all.Wait()
}
