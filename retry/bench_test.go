package retry_test

import (
	"context"
	"testing"

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
