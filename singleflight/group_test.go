package singleflight_test

import (
	"context"
	"errors"
	"io"
	"math"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/singleflight"
)

const (
	loading = 200 * time.Millisecond
	many    = 10
)

// slow takes its time, and heeds its context.
func slow[V any](value V, loads *atomic.Int64) func(context.Context) (V, error) {
	return func(ctx context.Context) (V, error) {
		loads.Add(1)
		select {
		case <-time.After(loading):
			return value, nil
		case <-ctx.Done():
			var none V
			return none, context.Cause(ctx)
		}
	}
}

// A recorder keeps what it observes.
type recorder struct {
	mu     sync.Mutex // guards events
	events []holdfast.Event
}

func (r *recorder) Observe(_ context.Context, e holdfast.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// of returns the events of a kind.
func (r *recorder) of(kind holdfast.EventKind) (found []holdfast.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.Kind == kind {
			found = append(found, e)
		}
	}
	return found
}

// S1: the context of the first caller is not that of the others.
func TestS1ALeaderWhoIsCancelledTakesNobodyAlong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var loads atomic.Int64
		seen := &recorder{}
		group := singleflight.New[string, int](&singleflight.Options{Observer: seen})
		ctx, cancel := context.WithCancel(holdfast.WithCorrelationID(t.Context(), "the leader's"))
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := group.Do(ctx, "key", slow(7, &loads)); !errors.Is(err, context.Canceled) {
				t.Errorf("the leader got %v", err)
			}
		})
		synctest.Wait()
		for range many {
			all.Go(func() {
				waiter := holdfast.WithCorrelationID(t.Context(), "a waiter's")
				if got, err := group.Do(waiter, "key", slow(8, &loads)); got != 7 || err != nil {
					t.Errorf("a waiter got %d, %v", got, err)
				}
			})
		}
		synctest.Wait()
		cancel()
		all.Wait()
		if loads.Load() != 1 {
			t.Errorf("%d loads", loads.Load())
		}
		shared := seen.of(singleflight.EventShared)
		if len(shared) != many || shared[0].CorrelationID != "a waiter's" || shared[0].Elapsed != loading || shared[0].Name != "singleflight" ||
			len(shared[0].Key) != 16 || len(seen.of(singleflight.EventAbandoned)) != 0 {
			t.Errorf("events: %+v", seen.events)
		}
	})
}

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
						if !errors.As(err, &panicked) || !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(string(panicked.Stack), "group_test.go") {
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

// S6: a deadline is the caller's.
func TestS6AWaiterLeavesAtItsDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var loads atomic.Int64
		var group singleflight.Group[string, int]
		var all sync.WaitGroup
		all.Go(func() {
			if got, err := group.Do(t.Context(), "key", slow(7, &loads)); got != 7 || err != nil {
				t.Errorf("the leader got %d, %v", got, err)
			}
		})
		synctest.Wait()
		begun := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), loading/10)
		defer cancel()
		if _, err := group.Do(ctx, "key", slow(8, &loads)); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != loading/10 {
			t.Errorf("got %v after %v", err, time.Since(begun))
		}
		if _, err := group.Do(ctx, "another", slow(8, &loads)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a context that had ended: %v", err)
		}
		all.Wait()
		if loads.Load() != 1 {
			t.Errorf("%d loads", loads.Load())
		}
	})
}

func TestTheContextEndsWhenTheLastWaiterLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		type mark struct{}
		seen := &recorder{}
		group := singleflight.New[string, int](&singleflight.Options{Observer: seen, Name: "reports"})
		why := errors.New("the user went away")
		ended := make(chan error, 1)
		first, leaveFirst := context.WithCancelCause(context.WithValue(t.Context(), mark{}, "the leader's"))
		second, leaveSecond := context.WithCancelCause(t.Context())
		for _, ctx := range []context.Context{first, second} {
			go func() {
				_, err := group.Do(ctx, "key", func(ctx context.Context) (int, error) {
					if ctx.Value(mark{}) != "the leader's" {
						t.Error("the values of the leader are lost")
					}
					<-ctx.Done()
					ended <- context.Cause(ctx)
					return 0, nil
				})
				if err == nil {
					t.Error("who left got no error")
				}
			}()
			synctest.Wait()
		}
		leaveFirst(nil)
		synctest.Wait()
		select {
		case <-ended:
			t.Fatal("one waits yet")
		default:
		}
		leaveSecond(why)
		if err := <-ended; !errors.Is(err, why) {
			t.Errorf("the cause is %v", err)
		}
		synctest.Wait()
		if left := seen.of(singleflight.EventAbandoned); len(left) != 1 || !errors.Is(left[0].Err, why) || left[0].Name != "reports" {
			t.Errorf("events: %+v", seen.events)
		}
	})
}

func TestALeftFlightIsNotJoined(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var group singleflight.Group[string, int]
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			_, _ = group.Do(ctx, "key", func(context.Context) (int, error) {
				time.Sleep(loading) // whatever its context says
				return 1, nil
			})
		}()
		synctest.Wait()
		cancel()
		synctest.Wait()
		if got, err := group.Do(t.Context(), "key", func(context.Context) (int, error) { return 2, nil }); got != 2 || err != nil {
			t.Errorf("got %d, %v", got, err)
		}
		if err := group.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// S8: who calls after Invalidate begins a call of its own; the old one is that of those who were there.
func TestS8InvalidateKeepsLaterCallersOut(t *testing.T) {
	t.Parallel()
	for name, invalidate := range map[string]func(*singleflight.Group[string, string]){
		"one": func(g *singleflight.Group[string, string]) { g.Invalidate("key") },
		"all": func(g *singleflight.Group[string, string]) { g.InvalidateAll() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var loads atomic.Int64
				var group singleflight.Group[string, string]
				var all sync.WaitGroup
				ask := func(fresh, want string) {
					all.Go(func() {
						if got, err := group.Do(t.Context(), "key", slow(fresh, &loads)); got != want || err != nil {
							t.Errorf("got %q, %v; want %q", got, err, want)
						}
					})
					synctest.Wait()
				}
				ask("old", "old")
				ask("-", "old")
				invalidate(&group)
				ask("new", "new")
				ask("-", "new")
				all.Wait()
				if loads.Load() != 2 {
					t.Errorf("%d loads", loads.Load())
				}
			})
		})
	}
}

func TestKeysOfEveryKind(t *testing.T) {
	t.Parallel()
	var texts singleflight.Group[string, string]
	for _, key := range []string{"", "\x00", "\xff\xfe", strings.Repeat("x", 1<<20), "'; drop table x --"} {
		if got, err := texts.Do(t.Context(), key, func(context.Context) (string, error) { return key, nil }); got != key || err != nil {
			t.Errorf("%.20q: %v", key, err)
		}
	}
	var numbers singleflight.Group[float64, int]
	for i := range 100 {
		if got, err := numbers.Do(t.Context(), math.NaN(), func(context.Context) (int, error) { return i, nil }); got != i || err != nil {
			t.Errorf("NaN: %d, %v", got, err)
		}
	}
	if err := numbers.Close(t.Context()); err != nil {
		t.Error(err)
	}
	type pair struct {
		a any
		b int
	}
	var pairs singleflight.Group[pair, int]
	if got, err := pairs.Do(t.Context(), pair{"x", 1}, func(context.Context) (int, error) { return 3, nil }); got != 3 || err != nil {
		t.Errorf("a struct: %d, %v", got, err)
	}
}
