package singleflight_test

import (
	"context"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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
