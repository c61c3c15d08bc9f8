package singleflight_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/singleflight"
)

// A source is what caches load from. Loads take the time loading.
type source struct {
	version atomic.Int64
	loads   atomic.Int64
	fail    atomic.Pointer[error]
}

func (s *source) load(ctx context.Context, _ string) (int64, error) {
	s.loads.Add(1)
	version, fail := s.version.Load(), s.fail.Load() // read first: by the end it is old
	select {
	case <-time.After(loading):
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	if fail != nil {
		return 0, *fail
	}
	return version, nil
}

// exact has no chance in it: TTL without jitter, no early refresh.
func exact(change func(*singleflight.CacheOptions[int64])) *singleflight.CacheOptions[int64] {
	o := &singleflight.CacheOptions[int64]{TTL: time.Minute, Jitter: -1, Beta: -1}
	if change != nil {
		change(o)
	}
	return o
}

// A trial is a cache, its source, and a test in a bubble.
type trial struct {
	*singleflight.Cache[string, int64]
	*source
	t    *testing.T
	seen *recorder
}

func inBubble(t *testing.T, o *singleflight.CacheOptions[int64], test func(*trial)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		tr := &trial{source: &source{}, t: t, seen: &recorder{}}
		o.Observer = tr.seen
		tr.Cache = singleflight.NewCache(tr.load, o)
		test(tr)
		if err := tr.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// want fails unless the next Get has the value, and there were so many loads in all.
func (tr *trial) want(value int64, loads int64) {
	tr.t.Helper()
	tr.check(value, loads, func() {})
}

// wantBehind is want where a load begins in the background.
func (tr *trial) wantBehind(value int64, loads int64) {
	tr.t.Helper()
	tr.check(value, loads, synctest.Wait)
}

func (tr *trial) check(value int64, loads int64, wait func()) {
	tr.t.Helper()
	got, err := tr.Get(tr.t.Context(), "key")
	wait()
	if got != value || err != nil || tr.loads.Load() != loads {
		tr.t.Errorf("got %d, %v after %d loads; want %d after %d", got, err, tr.loads.Load(), value, loads)
	}
}

func TestCacheReadsThrough(t *testing.T) {
	t.Parallel()
	inBubble(t, exact(nil), func(tr *trial) {
		var all sync.WaitGroup
		for range many {
			all.Go(func() { tr.want(0, 1) })
		}
		all.Wait()
		tr.version.Store(1)
		time.Sleep(time.Minute - loading)
		tr.want(0, 1)
		time.Sleep(loading) // the TTL counts from the end of the load
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

func TestSoftTTLServesAndRefreshes(t *testing.T) {
	t.Parallel()
	inBubble(t, exact(func(o *singleflight.CacheOptions[int64]) { o.SoftTTL = 10 * time.Second }), func(tr *trial) {
		tr.wantBehind(0, 1)
		tr.version.Store(1)
		time.Sleep(10 * time.Second)
		begun := time.Now()
		for range many {
			tr.wantBehind(0, 2) // at once, and one load for all
		}
		if time.Since(begun) != 0 {
			tr.t.Errorf("callers waited for %v", time.Since(begun))
		}
		time.Sleep(loading)
		synctest.Wait()
		tr.wantBehind(1, 2)
		if n := len(tr.seen.of(singleflight.EventStale)); n != many {
			tr.t.Errorf("%d events of stale values", n)
		}
		tr.version.Store(2) // nor is what a refresh brings stored after an invalidation
		time.Sleep(10 * time.Second)
		tr.wantBehind(1, 3)
		tr.version.Store(3)
		tr.Invalidate("key")
		tr.wantBehind(3, 4)
		tr.wantBehind(3, 4)
	})
}

func TestStaleIfErrorServesForSoLong(t *testing.T) {
	t.Parallel()
	away := errors.New("the source is away")
	inBubble(t, exact(func(o *singleflight.CacheOptions[int64]) { o.StaleIfError = time.Hour }), func(tr *trial) {
		tr.want(0, 1)
		tr.fail.Store(&away)
		time.Sleep(time.Minute)
		tr.want(0, 2)
		begun := time.Now()
		for range many {
			tr.want(0, 2) // for a second nobody waits for another failure
		}
		if time.Since(begun) != 0 {
			tr.t.Error("a caller waited who could be served")
		}
		time.Sleep(time.Second)
		tr.want(0, 3)
		if stale := tr.seen.of(singleflight.EventStale); !errors.Is(stale[0].Err, away) || len(stale) != many+2 {
			tr.t.Errorf("events: %+v", stale)
		}
		time.Sleep(time.Hour)
		if _, err := tr.Get(tr.t.Context(), "key"); !errors.Is(err, away) {
			tr.t.Errorf("after its time: %v", err)
		}
		tr.fail.Store(nil)
		tr.want(0, 5)
		tr.fail.Store(&away)
		tr.Invalidate("key")
		if _, err := tr.Get(tr.t.Context(), "key"); !errors.Is(err, away) {
			tr.t.Errorf("what is invalidated is not served: %v", err)
		}
	})
}

// What is invalidated while a load fails is not served in its place.
func TestWhatIsInvalidatedIsNotServedForAnError(t *testing.T) {
	t.Parallel()
	away := errors.New("the source is away")
	inBubble(t, exact(func(o *singleflight.CacheOptions[int64]) { o.StaleIfError = time.Hour }), func(tr *trial) {
		tr.want(0, 1)
		tr.fail.Store(&away)
		time.Sleep(time.Minute)
		time.AfterFunc(loading/2, func() { tr.Invalidate("key") })
		if got, err := tr.Get(tr.t.Context(), "key"); !errors.Is(err, away) {
			tr.t.Errorf("got %d, %v", got, err)
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

// XFetch: the nearer the end, the likelier. With a load of 200 ms and beta 1 an entry whose end is 200 ms away is refreshed with
// the chance 1/e, and one with a minute left never.
func TestEarlyRefreshIsLikelierNearTheEnd(t *testing.T) {
	t.Parallel()
	const rounds = 300
	for left, most := range map[time.Duration][2]int{loading: {60, 170}, 30 * time.Second: {0, 0}} {
		inBubble(t, exact(func(o *singleflight.CacheOptions[int64]) { o.Beta = 1 }), func(tr *trial) {
			refreshed := 0
			for range rounds {
				tr.InvalidateAll()
				before := tr.loads.Load() + 1
				tr.want(0, before)
				time.Sleep(time.Minute - left)
				if _, err := tr.Get(tr.t.Context(), "key"); err != nil {
					tr.t.Error(err)
				}
				synctest.Wait()
				refreshed += int(tr.loads.Load() - before)
				time.Sleep(loading)
				synctest.Wait()
			}
			if refreshed < most[0] || refreshed > most[1] {
				tr.t.Errorf("%v before the end %d of %d were refreshed, want %v", left, refreshed, rounds, most)
			}
		})
	}
}

func TestJitterShortensATTL(t *testing.T) {
	t.Parallel()
	inBubble(t, exact(func(o *singleflight.CacheOptions[int64]) { o.Jitter = 0.5 }), func(tr *trial) {
		const keys = 200
		for i := range keys {
			_, _ = tr.Get(tr.t.Context(), fmt.Sprint(i))
		}
		before := tr.loads.Load()
		tr.InvalidateAll()
		var all sync.WaitGroup
		for i := range keys {
			all.Go(func() { _, _ = tr.Get(tr.t.Context(), fmt.Sprint(i)) })
		}
		all.Wait()
		expired := func(after time.Duration) int64 {
			time.Sleep(after)
			was := tr.loads.Load()
			for i := range keys {
				ctx, cancel := context.WithCancel(tr.t.Context())
				go func() { _, _ = tr.Get(ctx, fmt.Sprint(i)) }()
				synctest.Wait()
				cancel()
				synctest.Wait()
			}
			return tr.loads.Load() - was
		}
		early, middle, late := expired(30*time.Second-time.Millisecond), expired(15*time.Second), expired(15*time.Second+time.Millisecond)
		if early != 0 || middle < keys/4 || middle > keys*3/4 || late != keys || before != keys {
			tr.t.Errorf("%d before half of the TTL, %d at three quarters, %d at its end, of %d", early, middle, late, keys)
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
