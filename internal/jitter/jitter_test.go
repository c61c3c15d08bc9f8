package jitter_test

import (
	"math"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/jitter"
)

func TestFullStaysWithinItsBounds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ base, limit time.Duration }{
		{2 * time.Millisecond, 500 * time.Millisecond}, {1, 1}, {time.Hour, time.Second}, {math.MaxInt64 / 2, math.MaxInt64}, {time.Second, math.MaxInt64},
	} {
		for _, attempt := range []int{math.MinInt, 0, 1, 2, 3, 10, 62, 63, 64, 65, 1000, math.MaxInt} {
			limit := c.limit
			if attempt <= 1 {
				limit = min(c.base, c.limit)
			}
			if d := jitter.Full(c.base, c.limit, attempt); d <= 0 || d > limit {
				t.Errorf("Full(%v, %v, %d) = %v", c.base, c.limit, attempt, d)
			}
		}
	}
	if d := jitter.Full(0, 0, 1); d != 0 {
		t.Errorf("got %v", d)
	}
}
