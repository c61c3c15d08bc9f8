package singleflight_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/singleflight"
)

// A caller that found nothing, and came too late for the flight that ended in between, does not load again.
func TestAKeyIsLoadedOnceHoweverCallersMeet(t *testing.T) {
	t.Parallel()
	var loads atomic.Int64
	cache := singleflight.NewCache(func(_ context.Context, key int) (int, error) {
		loads.Add(1)
		return key, nil
	}, &singleflight.CacheOptions[int]{TTL: time.Hour, Beta: -1, MaxEntries: 1 << 20})
	const keys = 30_000
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for key := range keys {
				if got, err := cache.Get(context.Background(), key); got != key || err != nil {
					t.Errorf("got %d, %v", got, err)
				}
			}
		})
	}
	all.Wait()
	if loads.Load() != keys {
		t.Errorf("%d loads of %d keys", loads.Load(), keys)
	}
}
