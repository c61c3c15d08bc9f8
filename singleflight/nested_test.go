package singleflight_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/singleflight"
)

// A function that asks for its own key, at whatever remove, is told so, and does not wait for itself.
func TestAFunctionThatAsksForItsOwnKey(t *testing.T) {
	t.Parallel()
	for name, ctx := range map[string]context.Context{"inline": context.Background(), "cancellable": t.Context()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				if name == "cancellable" {
					ctx = t.Context()
				}
				var group singleflight.Group[string, int]
				var ask func(ctx context.Context, keys ...string) (int, error)
				ask = func(ctx context.Context, keys ...string) (int, error) {
					ctx, cancel := context.WithTimeout(ctx, time.Hour)
					defer cancel()
					return group.Do(ctx, keys[0], func(ctx context.Context) (int, error) {
						if len(keys) == 1 {
							return 1, nil
						}
						return ask(ctx, keys[1:]...)
					})
				}
				for _, c := range []struct {
					keys []string
					want error
				}{
					{[]string{"a", "a"}, singleflight.ErrNested},
					{[]string{"a", "b", "c", "a"}, singleflight.ErrNested},
					{[]string{"a", "b", "c", "b"}, singleflight.ErrNested},
					{[]string{"a", "b", "c"}, nil},
				} {
					_, err := group.Do(ctx, "outside", func(ctx context.Context) (int, error) { return ask(ctx, c.keys...) })
					if !errors.Is(err, c.want) {
						t.Errorf("%v: got %v, want %v", c.keys, err, c.want)
					}
				}
			})
		})
	}
}

// Who asks for the key of a call that was invalidated begins another one, also within the function; and who comes later, with the
// context of a call that has ended, waits like others.
func TestAnotherCallOfTheKeyIsNotNested(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var group singleflight.Group[string, int]
		one := func(context.Context) (int, error) { return 1, nil }
		var ended context.Context
		if got, err := group.Do(t.Context(), "key", func(ctx context.Context) (int, error) {
			ended = context.WithoutCancel(ctx)
			group.Invalidate("key")
			return group.Do(ctx, "key", one)
		}); got != 1 || err != nil {
			t.Errorf("after an invalidation: %d, %v", got, err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = group.Do(t.Context(), "key", func(context.Context) (int, error) { time.Sleep(loading); return 2, nil })
		}()
		synctest.Wait()
		if got, err := group.Do(ended, "key", one); got != 2 || err != nil {
			t.Errorf("after its end: %d, %v", got, err)
		}
		<-done
	})
}

// A nested call is a mistake in the program, which no stale value hides; and it takes nobody's flight along.
func TestALoadThatAsksForItsOwnKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var cache *singleflight.Cache[string, int]
		var nested error
		loads := 0
		cache = singleflight.NewCache(func(ctx context.Context, key string) (int, error) {
			loads++
			if loads == 1 {
				return 1, nil
			}
			ctx, cancel := context.WithTimeout(ctx, time.Hour)
			defer cancel()
			_, nested = cache.Get(ctx, key)
			return loads, ctx.Err()
		}, &singleflight.CacheOptions[int]{TTL: time.Minute, StaleIfError: 24 * time.Hour, Jitter: -1, Beta: -1})
		for want := 1; want <= 2; want++ {
			if got, err := cache.Get(t.Context(), "key"); got != want || err != nil {
				t.Errorf("got %d, %v; want %d", got, err, want)
			}
			time.Sleep(time.Minute)
		}
		if !errors.Is(nested, singleflight.ErrNested) {
			t.Errorf("the load was told %v", nested)
		}
	})
}

// A nested call that was refused is not one who waits: when all others have left, the function's context ends.
func TestARefusedNestedCallDoesNotWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var group singleflight.Group[string, int]
		ended := make(chan error, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, _ = group.Do(ctx, "key", func(ctx context.Context) (int, error) {
			_, _ = group.Do(ctx, "key", func(context.Context) (int, error) { return 0, nil })
			select {
			case <-ctx.Done():
				ended <- nil
			case <-time.After(time.Hour):
				ended <- errors.New("the context goes on, though nobody waits")
			}
			return 0, nil
		})
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
