package singleflight_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/singleflight"
)

// HOLDFAST_SEED repeats the choices of a run.
func random(t *testing.T) *rand.Rand {
	t.Helper()
	seed, err := strconv.ParseUint(os.Getenv("HOLDFAST_SEED"), 10, 64)
	if err != nil {
		seed = rand.Uint64()
	}
	t.Logf("HOLDFAST_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// One step after the other, a cache does what a map with expiry times does, and is never above its limit.
func TestCacheDoesWhatTheModelDoes(t *testing.T) {
	t.Parallel()
	random := random(t)
	synctest.Test(t, func(t *testing.T) {
		type kept struct {
			version int64
			end     time.Time
		}
		const limit, ttl = 5, time.Minute
		var loads int64
		version, model := map[int]int64{}, map[int]kept{}
		cache := singleflight.NewCache(func(_ context.Context, key int) (int64, error) {
			loads++
			return version[key], nil
		}, &singleflight.CacheOptions[int64]{TTL: ttl, MaxEntries: limit, Jitter: -1, Beta: -1})
		for step := range 20_000 {
			key := random.IntN(9)
			switch random.IntN(8) {
			case 0:
				time.Sleep(time.Duration(random.Int64N(int64(ttl / 4))))
			case 1:
				version[key]++
				cache.Invalidate(key)
				delete(model, key)
			case 2:
				version[key]++ // nobody tells the cache
			default:
				before := loads
				got, err := cache.Get(t.Context(), key)
				known, ok := model[key]
				fresh := ok && time.Now().Before(known.end)
				switch {
				case err != nil:
					t.Fatal(err)
				case loads > before: // it was not there, expired, or was evicted
					if got != version[key] {
						t.Fatalf("step %d: loaded %d, want %d", step, got, version[key])
					}
					model[key] = kept{got, time.Now().Add(ttl)}
				case !fresh || got != known.version:
					t.Fatalf("step %d: a hit of %d; the model has %+v, fresh %v", step, got, known, fresh)
				}
			}
			if cache.Len() > limit {
				t.Fatalf("step %d: %d entries", step, cache.Len())
			}
		}
	})
}

// A hot key stays while others pass by, which is what a sieve is for.
func TestWhatIsUsedStays(t *testing.T) {
	t.Parallel()
	var loads [2]atomic.Int64
	cache := singleflight.NewCache(func(_ context.Context, key int) (int, error) {
		loads[min(key, 1)].Add(1)
		return key, nil
	}, &singleflight.CacheOptions[int]{MaxEntries: 10, Beta: -1, TTL: time.Hour})
	for key := range 1000 {
		for _, k := range []int{0, key + 1} {
			if got, err := cache.Get(t.Context(), k); got != k || err != nil {
				t.Fatalf("got %d, %v", got, err)
			}
		}
	}
	if cache.Len() != 10 || loads[0].Load() != 1 || loads[1].Load() != 1000 {
		t.Errorf("%d entries, %d loads of the hot key, %d of the others", cache.Len(), loads[0].Load(), loads[1].Load())
	}
}

// The guarantee: who calls after an invalidation never gets what was there before it, whatever else goes on.
func TestNobodyGetsWhatWasInvalidatedBefore(t *testing.T) {
	t.Parallel()
	random := random(t)
	var version, settled [3]atomic.Int64 // settled: invalidated up to here
	cache := singleflight.NewCache(func(_ context.Context, key int) (int64, error) {
		v := version[key].Load()
		time.Sleep(time.Duration(v%5) * 20 * time.Microsecond)
		return v, nil
	}, &singleflight.CacheOptions[int64]{TTL: time.Millisecond, SoftTTL: 100 * time.Microsecond, StaleIfError: time.Hour, MaxEntries: 2})
	var writers, readers sync.WaitGroup
	done := make(chan struct{})
	for key := range version {
		pause := rand.New(rand.NewPCG(random.Uint64(), 0))
		writers.Go(func() {
			for range 300 {
				v := version[key].Add(1)
				cache.Invalidate(key)
				settled[key].Store(v)
				time.Sleep(time.Duration(pause.Int64N(int64(300 * time.Microsecond))))
			}
		})
	}
	for reader := range 16 {
		readers.Go(func() {
			for i := reader; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				key := i % len(version)
				least := settled[key].Load()
				if got, err := cache.Get(t.Context(), key); err != nil || got < least {
					t.Errorf("%s: got version %d, %v; %d was invalidated before", fmt.Sprint(key), got, err, least-1)
					return
				}
			}
		})
	}
	writers.Wait()
	close(done)
	readers.Wait()
	if err := cache.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// The same where an invalidation meets the end of a load, each time at another moment, and what is stored would stay for an hour.
func TestNothingStaleStaysWhereAnInvalidationMeetsALoad(t *testing.T) {
	t.Parallel()
	random := random(t)
	const rounds = 30_000
	var version, loading atomic.Int64
	spin := func(n int) {
		for range n {
			loading.Load()
		}
	}
	for round := range rounds {
		length := random.IntN(2000)
		cache := singleflight.NewCache(func(context.Context, int) (int64, error) {
			read := version.Load()
			loading.Store(int64(round + 1))
			spin(length)
			return read, nil
		}, &singleflight.CacheOptions[int64]{TTL: time.Hour, Beta: -1})
		var reader sync.WaitGroup
		reader.Go(func() { _, _ = cache.Get(context.Background(), 1) })
		for loading.Load() <= int64(round) {
			runtime.Gosched()
		}
		spin(random.IntN(4000))
		v := version.Add(1)
		cache.Invalidate(1)
		reader.Wait()
		if got, err := cache.Get(context.Background(), 1); got != v || err != nil {
			t.Fatalf("round %d: got version %d, %v; %d was invalidated before", round, got, err, v-1)
		}
	}
}
