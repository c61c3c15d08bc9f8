package redisflight_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/rediscluster"
	"github.com/holdfast-go/holdfast/singleflight/redisflight"
)

// A value and its lease are in one slot, whatever the key.
func TestKeysOnACluster(t *testing.T) {
	t.Parallel()
	cluster := rediscluster.Start(t)
	f := &fixture{t: t}
	var loads atomic.Int64
	first := f.cache(cluster.Client(t, nil), constant("value", &loads), nil)
	second := f.cache(cluster.Client(t, nil), constant("other", &loads), nil)
	for i := range 64 {
		key := fmt.Sprint("{", i, "}x{}", i)
		want(t, "value")(first.Get(t.Context(), key))
		want(t, "value")(second.Get(t.Context(), key))
	}
	if n := f.count(redisflight.EventUnstored); loads.Load() != 64 || n != 0 {
		t.Errorf("%d loads, %d not stored", loads.Load(), n)
	}
	for i, node := range cluster.Nodes {
		if n, err := node.DBSize(t.Context()).Result(); err != nil || n < 10 || n > 54 {
			t.Errorf("node %d has %d keys, %v", i, n, err)
		}
	}
}

// While a slot moves, callers get what they ask for and an invalidation holds; once it has moved, everything is as before, though
// no client was told.
func TestASlotMovesBetweenNodes(t *testing.T) {
	t.Parallel()
	cluster := rediscluster.Start(t)
	for key, moves := range map[string]bool{"still there": false, "moved": true} {
		f := &fixture{t: t}
		var version atomic.Int64
		from := func(context.Context, string) (string, error) { return fmt.Sprint("version ", version.Load()), nil }
		first, second := f.cache(cluster.Client(t, nil), from, nil), f.cache(cluster.Client(t, nil), from, nil)
		change := func() {
			t.Helper()
			version.Add(1)
			if err := second.Invalidate(t.Context(), key); err != nil {
				t.Errorf("%s: Invalidate: %v", key, err)
			}
		}
		agree := func(c *redisflight.Cache[string]) {
			t.Helper()
			want(t, fmt.Sprint("version ", version.Load()))(c.Get(t.Context(), key))
		}
		agree(first)
		slot := cluster.Open(t, onlyKey(t, cluster))
		agree(first)
		if moves {
			slot.Move(t, slot.Keys(t)...)
			agree(second)
		}
		change() // the value is here or there, and no lease anywhere
		agree(first)
		slot.Close(t)
		agree(first) // by MOVED
		before := f.count(redisflight.EventLoaded)
		agree(first)
		agree(second)
		if n := f.count(redisflight.EventLoaded) - before; n != 0 {
			t.Errorf("%s: %d loads of what is stored", key, n)
		}
		change()
	}
}

// A load under a lease whose slot moves meanwhile is stored where the slot is by then, and refused if it was invalidated, on
// whichever side.
func TestALeaseMovesWithItsSlot(t *testing.T) {
	t.Parallel()
	cluster := rediscluster.Start(t)
	for _, invalidated := range []string{"never", "as the slot opens", "after the move"} {
		f := &fixture{t: t}
		loading, goOn := make(chan struct{}, 2), make(chan struct{})
		var version, loads atomic.Int64
		first := f.cache(cluster.Client(t, nil), func(context.Context, string) (string, error) {
			v := fmt.Sprint("version ", version.Load())
			loading <- struct{}{}
			<-goOn
			return v, nil
		}, func(o *redisflight.Options[string]) { o.OwnerTimeout = time.Minute })
		second := f.cache(cluster.Client(t, nil), constant("of another", &loads), nil)
		change := func(at string) {
			t.Helper()
			if at != invalidated {
				return
			}
			version.Add(1)
			if err := second.Invalidate(t.Context(), invalidated); err != nil {
				t.Error(err)
			}
		}
		var all sync.WaitGroup
		all.Go(func() {
			got, err := first.Get(t.Context(), invalidated)
			want(t, fmt.Sprint("version ", version.Load()))(got, err)
		})
		<-loading
		slot := cluster.Open(t, onlyKey(t, cluster))
		change("as the slot opens")
		slot.Close(t)
		change("after the move")
		close(goOn)
		all.Wait()
		want(t, fmt.Sprint("version ", version.Load()))(second.Get(t.Context(), invalidated))
		if n := f.count(redisflight.EventRefused); loads.Load() != 0 || n != int(version.Load()) {
			t.Errorf("%s: %d loads of another, %d refused", invalidated, loads.Load(), n)
		}
		if err := second.Invalidate(t.Context(), invalidated); err != nil {
			t.Error(err)
		}
	}
}

// onlyKey returns the one key that there is.
func onlyKey(t *testing.T, cluster *rediscluster.Cluster) string {
	t.Helper()
	var all []string
	for _, node := range cluster.Nodes {
		keys, err := node.Keys(t.Context(), "*").Result()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, keys...)
	}
	if len(all) != 1 {
		t.Fatalf("keys: %q", all)
	}
	return all[0]
}
