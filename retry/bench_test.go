package retry_test

import (
	"context"
	"testing"

	"github.com/cenkalti/backoff/v4"

	"github.com/holdfast-go/holdfast/retry"
)

func BenchmarkDo(b *testing.B) {
	fn := func(context.Context, retry.Attempt) (int, error) { return 1, nil }
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for name, p := range map[string]*retry.Policy{
		"marked": nil, "nested": retry.New(&retry.Options{Nested: true}),
		"breaker": retry.New(&retry.Options{Nested: true, Breaker: retry.NewBreaker(nil)}),
		"budget":  retry.New(&retry.Options{Nested: true, Budget: retry.NewBudget(1, 10)}),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = retry.Do(ctx, p, retry.Idempotent, fn)
			}
		})
	}
	b.Run("plain", func(b *testing.B) {
		for b.Loop() {
			for {
				if _, err := fn(ctx, retry.Attempt{}); err == nil {
					break
				}
			}
		}
	})
}

func BenchmarkThreeFailures(b *testing.B) {
	p := retry.New(&retry.Options{Attempts: 4, BackOff: func() backoff.BackOff { return &backoff.ZeroBackOff{} }})
	b.ReportAllocs()
	for b.Loop() {
		_ = retry.Run(b.Context(), p, retry.Idempotent, func(_ context.Context, a retry.Attempt) error {
			if a.Number < 4 {
				return errBoom
			}
			return nil
		})
	}
}

func BenchmarkThreeFailuresBackoff(b *testing.B) {
	for b.Loop() {
		n := 0
		_ = backoff.Retry(func() error {
			if n++; n < 4 {
				return errBoom
			}
			return nil
		}, &backoff.ZeroBackOff{})
	}
}
