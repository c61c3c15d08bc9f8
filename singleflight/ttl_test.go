package singleflight_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/singleflight"
)

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
				time.Sleep(time.Minute - loading - left)
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
		early, middle, late := expired(30*time.Second-loading-time.Millisecond), expired(15*time.Second), expired(15*time.Second+time.Millisecond)
		if early != 0 || middle < keys/4 || middle > keys*3/4 || late != keys || before != keys {
			tr.t.Errorf("%d before half of the TTL, %d at three quarters, %d at its end, of %d", early, middle, late, keys)
		}
	})
}

// A refresh that hangs keeps nobody waiting for good: once the value is over, who gives up ends it, and the next load is a new one.
func TestARefreshThatHangsIsLeft(t *testing.T) {
	t.Parallel()
	for name, waits := range map[string]bool{"nobody waits": false, "callers wait": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				loads := 0
				cache := singleflight.NewCache(func(ctx context.Context, _ string) (int, error) {
					if loads++; loads == 2 {
						<-ctx.Done()
						return 0, context.Cause(ctx)
					}
					return loads, nil
				}, &singleflight.CacheOptions[int]{TTL: time.Minute, SoftTTL: time.Second, Jitter: -1, Beta: -1})
				ask := func(want int, wantErr error) {
					t.Helper()
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
					defer cancel()
					if got, err := cache.Get(ctx, "key"); got != want || !errors.Is(err, wantErr) {
						t.Errorf("got %d, %v; want %d, %v", got, err, want, wantErr)
					}
				}
				ask(1, nil)
				time.Sleep(time.Second)
				ask(1, nil)                                    // begins the refresh
				time.Sleep(time.Minute - 500*time.Millisecond) // the value is over, and who refreshes it has not left yet
				if waits {
					ask(0, context.DeadlineExceeded)
				} else {
					time.Sleep(5 * time.Second)
				}
				ask(3, nil)
				if err := cache.Close(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// The longest durations that there are do not overflow into short ones.
func TestDurationsWithoutEnd(t *testing.T) {
	t.Parallel()
	const ever = time.Duration(math.MaxInt64)
	for name, o := range map[string]*singleflight.CacheOptions[int64]{
		"exact":  {TTL: ever, SoftTTL: time.Millisecond, StaleIfError: ever, NotFoundTTL: ever, Jitter: -1, Beta: -1},
		"random": {TTL: ever, SoftTTL: time.Minute, StaleIfError: ever, NotFoundTTL: ever, Jitter: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, o, func(tr *trial) {
				tr.want(0, 1)
				tr.version.Store(1)
				time.Sleep(o.SoftTTL)
				tr.wantBehind(0, 2) // the refresh is not left at once
				time.Sleep(loading)
				synctest.Wait()
				if abandoned := tr.seen.of(singleflight.EventAbandoned); len(abandoned) != 0 {
					tr.t.Errorf("events: %+v", abandoned)
				}
				none := fmt.Errorf("none: %w", singleflight.ErrNotFound)
				tr.fail.Store(&none)
				tr.Invalidate("key")
				for range 3 {
					if _, err := tr.Get(tr.t.Context(), "key"); !errors.Is(err, none) || tr.loads.Load() != 3 {
						tr.t.Errorf("%v after %d loads", err, tr.loads.Load())
					}
				}
			})
		})
	}
}
