package singleflight_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/singleflight"
)

// S18: a deletion right after a Get, or while the refresh in the background runs, is not undone by what that comes to.
func TestS18NothingIsStoredBehindADeletion(t *testing.T) {
	t.Parallel()
	inBubble(t, exact(func(o *singleflight.CacheOptions[int64]) { o.SoftTTL = time.Second }), func(tr *trial) {
		tr.want(0, 1)
		tr.version.Store(1)
		tr.Invalidate("key")
		time.Sleep(time.Second)
		synctest.Wait()
		if tr.Len() != 0 {
			tr.t.Error("what was deleted right after it was stored is back")
		}
		tr.want(1, 2)
		time.Sleep(time.Second)
		tr.wantBehind(1, 3) // a refresh begins, and reads version 1
		tr.version.Store(2)
		tr.Invalidate("key")
		time.Sleep(loading)
		synctest.Wait()
		if tr.Len() != 0 {
			tr.t.Error("what the refresh had read is stored")
		}
		tr.want(2, 4)
	})
}

// S18: keys are equal by Go's ==, and not by how they are printed.
func TestS18KeysAreComparedByValue(t *testing.T) {
	t.Parallel()
	type pair struct {
		tenant *string
		id     any
	}
	loads := 0
	cache := singleflight.NewCache(func(_ context.Context, key pair) (int, error) { loads++; return loads, nil }, nil)
	one, other := "tenant", "tenant"
	for _, c := range []struct {
		key  pair
		want int
	}{
		{pair{&one, 1}, 1}, {pair{&one, 1}, 1}, {pair{&one, "1"}, 2}, {pair{&other, 1}, 3}, {pair{nil, int64(1)}, 4}, {pair{&one, 1}, 1}, {pair{nil, int64(1)}, 4},
	} {
		if got, err := cache.Get(t.Context(), c.key); got != c.want || err != nil {
			t.Errorf("%+v: load %d, %v; want %d", c.key, got, err, c.want)
		}
	}
	cache.Invalidate(pair{&one, 1})
	if got, err := cache.Get(t.Context(), pair{&one, 1}); got != 5 || err != nil {
		t.Errorf("after the deletion: %d, %v", got, err)
	}
}
