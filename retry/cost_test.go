package retry_test

import (
	"context"
	"testing"

	"github.com/holdfast-go/holdfast/retry"
)

func TestAllocations(t *testing.T) {
	fn := func(context.Context, retry.Attempt) (int, error) { return 1, nil }
	for _, c := range []struct {
		name string
		o    retry.Options
		want float64
	}{
		{"marked", retry.Options{}, 1},
		{"nested", retry.Options{Nested: true}, 0},
		{"breaker and budget", retry.Options{Nested: true, Breaker: retry.NewBreaker(nil), Budget: retry.NewBudget(1, 1)}, 0},
	} {
		p, ctx := retry.New(&c.o), t.Context()
		if got := testing.AllocsPerRun(200, func() { _, _ = retry.Do(ctx, p, retry.Keyed("k"), fn) }); got > c.want {
			t.Errorf("%s: %v allocations, want %v", c.name, got, c.want)
		}
	}
}
