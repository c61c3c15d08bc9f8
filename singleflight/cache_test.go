package singleflight_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/singleflight"
)

func TestCacheReadsThrough(t *testing.T) {
	t.Parallel()
	inBubble(t, exact(nil), func(tr *trial) {
		var all sync.WaitGroup
		for range many {
			all.Go(func() { tr.want(0, 1) })
		}
		all.Wait()
		tr.version.Store(1)
		time.Sleep(time.Minute - loading - time.Nanosecond)
		tr.want(0, 1)
		time.Sleep(time.Nanosecond) // the TTL counts from the beginning of the load
		tr.want(1, 2)
		if len(tr.seen.of(singleflight.EventLoaded)) != 2 || len(tr.seen.of(singleflight.EventHit)) != 1 {
			tr.t.Errorf("events: %+v", tr.seen.events)
		}
	})
}

// S8: what was invalidated under way is not stored, and not for later callers.
func TestS8NothingStaleIsStored(t *testing.T) {
	t.Parallel()
	for name, invalidate := range map[string]func(*trial){
		"one": func(tr *trial) { tr.Invalidate("another", "key") },
		"all": func(tr *trial) { tr.InvalidateAll() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, exact(nil), func(tr *trial) {
				var all sync.WaitGroup
				all.Go(func() { tr.want(0, 2) }) // it was there before
				synctest.Wait()
				time.Sleep(loading / 2)
				tr.version.Store(1) // the writer commits
				invalidate(tr)
				all.Go(func() { tr.want(1, 2) })
				all.Wait()
				tr.want(1, 2)
				if len(tr.seen.of(singleflight.EventDropped)) != 1 {
					tr.t.Errorf("events: %+v", tr.seen.events)
				}
				tr.version.Store(2)
				invalidate(tr)
				if tr.Len() != 0 {
					tr.t.Errorf("%d entries", tr.Len())
				}
				tr.want(2, 3)
			})
		})
	}
}

func TestWhatAllHaveLeftIsNotStored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cache := singleflight.NewCache(func(context.Context, string) (int, error) {
			time.Sleep(loading) // whatever its context says
			return 1, nil
		}, nil)
		ctx, cancel := context.WithTimeout(t.Context(), loading/2)
		defer cancel()
		if _, err := cache.Get(ctx, "key"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		time.Sleep(loading)
		if cache.Len() != 0 {
			t.Error("a later Invalidate could not have stopped it")
		}
	})
}

func TestNotFoundIsRemembered(t *testing.T) {
	t.Parallel()
	none, away := fmt.Errorf("no such user: %w", singleflight.ErrNotFound), errors.New("away")
	inBubble(t, exact(func(o *singleflight.CacheOptions[int64]) { o.NotFoundTTL = 5 * time.Second }), func(tr *trial) {
		ask := func(want error, loads int64) {
			tr.t.Helper()
			if _, err := tr.Get(tr.t.Context(), "key"); !errors.Is(err, want) || tr.loads.Load() != loads {
				tr.t.Errorf("got %v after %d loads; want %v after %d", err, tr.loads.Load(), want, loads)
			}
		}
		tr.fail.Store(&none)
		ask(none, 1)
		ask(none, 1)
		time.Sleep(5 * time.Second)
		ask(none, 2)
		tr.Invalidate("key")
		tr.fail.Store(&away)
		ask(away, 3)
		ask(away, 4) // another error is not remembered
		tr.fail.Store(nil)
		tr.want(0, 5)
	})
	inBubble(t, exact(nil), func(tr *trial) {
		tr.fail.Store(&none)
		for i := range int64(3) {
			if _, err := tr.Get(tr.t.Context(), "key"); !errors.Is(err, none) || tr.loads.Load() != i+1 {
				tr.t.Errorf("without a TTL: %v after %d loads", err, tr.loads.Load())
			}
		}
	})
}

func TestEachCallerHasItsOwnClone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cache := singleflight.NewCache(func(context.Context, string) (map[string]int, error) {
			time.Sleep(loading)
			return map[string]int{"a": 1}, nil
		}, &singleflight.CacheOptions[map[string]int]{Clone: maps.Clone[map[string]int]})
		var all sync.WaitGroup
		for range many {
			all.Go(func() {
				for range 3 {
					got, err := cache.Get(t.Context(), "key")
					if err != nil || len(got) != 1 || got["a"] != 1 {
						t.Errorf("got %v, %v", got, err)
					}
					got["b"] = 2 // a race, or a value that others see
				}
			})
		}
		all.Wait()
	})
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	for _, o := range []singleflight.CacheOptions[int64]{
		{TTL: -1}, {SoftTTL: 2 * time.Minute}, {MaxEntries: -1}, {NotFoundTTL: -1}, {StaleIfError: -1}, {Jitter: 2}, {SoftTTL: -1},
	} {
		if _, err := singleflight.NewCache((&source{}).load, &o).Get(t.Context(), "key"); !errors.Is(err, singleflight.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	cache := singleflight.NewCache(func(context.Context, string) (int, error) { return 1, nil }, nil)
	if got, err := cache.Get(t.Context(), "key"); got != 1 || err != nil {
		t.Errorf("nil options: %d, %v", got, err)
	}
}
