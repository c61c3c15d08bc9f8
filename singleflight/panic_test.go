package singleflight_test

import (
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/singleflight"
)

// S3, S4: no hang, no crash, and the next call is a new one.
func TestS3S4APanicIsAnErrorForAll(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) context.Context{
		"cancellable": func(t *testing.T) context.Context { return t.Context() },
		"inline":      func(*testing.T) context.Context { return context.Background() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				seen := &recorder{}
				group := singleflight.New[string, int](&singleflight.Options{Observer: seen})
				var all sync.WaitGroup
				for range many {
					all.Go(func() {
						_, err := group.Do(open(t), "key", func(context.Context) (int, error) {
							time.Sleep(loading)
							panic(io.ErrUnexpectedEOF)
						})
						var panicked *singleflight.PanicError
						if !errors.As(err, &panicked) || !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(string(panicked.Stack), "panic_test.go") {
							t.Errorf("got %v", err)
						}
					})
				}
				all.Wait()
				if len(seen.of(singleflight.EventPanicked)) != 1 {
					t.Errorf("events: %+v", seen.events)
				}
				if got, err := group.Do(open(t), "key", func(context.Context) (int, error) { return 1, nil }); got != 1 || err != nil {
					t.Errorf("then %d, %v", got, err)
				}
			})
		})
	}
	if err := (&singleflight.PanicError{Value: "text"}); err.Unwrap() != nil || !strings.Contains(err.Error(), "text") {
		t.Errorf("%v", err)
	}
}

// S5: a waiter must not get a zero value as a success.
func TestS5GoexitIsAnErrorForAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var group singleflight.Group[string, string]
		var all sync.WaitGroup
		exit := func(context.Context) (string, error) {
			time.Sleep(loading)
			runtime.Goexit()
			return "", nil
		}
		gone := true
		all.Go(func() { // whose context cannot end: it runs the function itself, and Goexit ends it
			_, _ = group.Do(context.Background(), "inline", exit)
			gone = false
		})
		synctest.Wait()
		for _, key := range []string{"inline", "own goroutine"} {
			for range many {
				all.Go(func() {
					if _, err := group.Do(t.Context(), key, exit); !errors.Is(err, singleflight.ErrGoexit) {
						t.Errorf("%s: got %v", key, err)
					}
				})
			}
		}
		all.Wait()
		if !gone {
			t.Error("Goexit was stopped")
		}
	})
}

// What else the cache calls may panic too.
func TestAPanicOfNotFoundIsAnErrorForAll(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) context.Context{
		"cancellable": func(t *testing.T) context.Context { return t.Context() },
		"inline":      func(*testing.T) context.Context { return context.Background() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				cache := singleflight.NewCache(func(context.Context, string) (int, error) {
					time.Sleep(loading)
					return 0, io.EOF
				}, &singleflight.CacheOptions[int]{NotFoundTTL: time.Hour, NotFound: func(error) bool { panic("not found") }})
				var all sync.WaitGroup
				for range many {
					all.Go(func() {
						_, err := cache.Get(open(t), "key")
						var panicked *singleflight.PanicError
						if !errors.As(err, &panicked) || panicked.Value != "not found" {
							t.Errorf("got %v", err)
						}
					})
				}
				all.Wait()
				if err := cache.Close(t.Context()); err != nil {
					t.Errorf("a flight is left: %v", err)
				}
			})
		})
	}
}
