package redisflight_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redisproxy"
	"github.com/holdfast-go/holdfast/singleflight/redisflight"
)

// Redis is away: the load happens, once at a time in the process, and callers get the value.
func TestRedisAway(t *testing.T) {
	t.Parallel()
	f := start(t)
	refused := f.open(func(o *redis.Options) { o.Addr, o.DialerRetries, o.MaxRetries = "127.0.0.1:1", 1, -1 })
	p := redisproxy.Start(t, f.client.Options().Addr)
	silent := f.open(func(o *redis.Options) { o.Addr, o.ReadTimeout, o.MaxRetries = p.Address, time.Minute, -1 })
	_, release := p.Hold("")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for name, client := range map[string]*redis.Client{"refused": refused, "silent": silent} {
		t.Run(name, func(t *testing.T) {
			var loads atomic.Int64
			before := f.count(redisflight.EventUnstored)
			c := f.cache(client, func(context.Context, string) (string, error) {
				loads.Add(1)
				time.Sleep(300 * time.Millisecond)
				return "value", nil
			}, func(o *redisflight.Options[string]) { o.Timeout = 100 * time.Millisecond })
			var all sync.WaitGroup
			for range 20 {
				all.Go(func() { want(t, "value")(c.Get(ctx, "key")) })
			}
			all.Wait()
			if loads.Load() != 1 || f.count(redisflight.EventUnstored) != before+1 {
				t.Errorf("%d loads, %d events", loads.Load(), f.count(redisflight.EventUnstored)-before)
			}
		})
	}
	release() // so that the requests end
}

// An invalidation that does not reach Redis is an error, and holds in this process all the same.
func TestInvalidateWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	f := start(t)
	var version atomic.Int64
	reading, goOn := make(chan struct{}, 2), make(chan struct{})
	c := f.cache(f.open(func(o *redis.Options) { o.Addr, o.DialerRetries, o.MaxRetries = "127.0.0.1:1", 1, -1 }),
		func(context.Context, string) (string, error) {
			v := fmt.Sprint(version.Load())
			reading <- struct{}{}
			<-goOn
			return v, nil
		}, nil)
	var all sync.WaitGroup
	all.Go(func() { want(t, "0")(c.Get(t.Context(), "key")) })
	<-reading
	version.Store(1)
	if err := c.Invalidate(t.Context(), "key"); err == nil {
		t.Error("nothing was invalidated, and nobody told")
	}
	all.Go(func() { want(t, "1")(c.Get(t.Context(), "key")) })
	select {
	case <-reading:
	case <-time.After(20 * time.Second):
		t.Error("no load after the invalidation")
	}
	close(goOn)
	all.Wait()
}

// The client sends a script again when its reply is late: the lease that it got is its own, and what it stored is stored.
func TestLostRepliesChangeNothing(t *testing.T) {
	t.Parallel()
	f := start(t)
	var loads atomic.Int64
	p, client := f.behind(4)
	c := f.cache(client, constant("value", &loads), func(o *redisflight.Options[string]) {
		o.Timeout, o.OwnerTimeout = 20*time.Second, time.Hour
	})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	want(t, "value")(c.Get(ctx, "warm")) // the scripts
	for i, lose := range []int{1, 2} {
		before, key := loads.Load(), fmt.Sprint("key ", i)
		p.Watch("evalsha", lose) // of the look, and then of the look again
		want(t, "value")(c.Get(ctx, key))
		p.Watch("", 0)
		want(t, "value")(c.Get(ctx, key))
		if loads.Load() != before+1 {
			t.Errorf("%d replies to look lost: %d loads", lose, loads.Load()-before)
		}
	}
	// Now that of publish, which has the value in it.
	before := loads.Load()
	marked := f.cache(client, constant("marked value", &loads), func(o *redisflight.Options[string]) { o.Timeout = 20 * time.Second })
	p.Watch("marked value", 1)
	want(t, "marked value")(marked.Get(t.Context(), "publish"))
	if n := p.Count(); n != 2 {
		t.Errorf("publish was sent %d times", n)
	}
	want(t, "marked value")(marked.Get(t.Context(), "publish"))
	if loads.Load() != before+1 || f.count(redisflight.EventRefused) != 0 {
		t.Errorf("%d loads, %d refused", loads.Load()-before, f.count(redisflight.EventRefused))
	}
}
