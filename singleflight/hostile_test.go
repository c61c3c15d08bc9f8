package singleflight_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/singleflight"
)

// A clone function is given values only: what is not found has none.
func TestNothingIsNotCloned(t *testing.T) {
	t.Parallel()
	c := singleflight.NewCache(func(context.Context, int) (*int, error) { return nil, singleflight.ErrNotFound },
		&singleflight.CacheOptions[*int]{NotFoundTTL: time.Hour, Clone: func(n *int) *int {
			other := *n
			return &other
		}})
	for range 2 {
		if n, err := c.Get(t.Context(), 1); n != nil || !errors.Is(err, singleflight.ErrNotFound) {
			t.Errorf("got %v, %v", n, err)
		}
	}
}

// A caller who gives up says nothing of the source: the next one gets what is fresh, though an old value could be served.
func TestALoadThatWasLeftHasNotFailed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		loads := 0
		c := singleflight.NewCache(func(ctx context.Context, _ int) (int, error) {
			loads++
			select {
			case <-time.After(time.Second):
				return loads, nil
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}, &singleflight.CacheOptions[int]{TTL: time.Minute, StaleIfError: time.Hour, Beta: -1, Jitter: -1})
		if v, err := c.Get(t.Context(), 1); v != 1 || err != nil {
			t.Fatalf("got %d, %v", v, err)
		}
		time.Sleep(2 * time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if _, err := c.Get(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v", err)
		}
		synctest.Wait()
		if v, err := c.Get(t.Context(), 1); v != 3 || err != nil {
			t.Errorf("got %d, %v", v, err)
		}
	})
}
