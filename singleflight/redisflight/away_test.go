package redisflight_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redisproxy"
	"github.com/holdfast-go/holdfast/singleflight"
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
	p, client := f.behind(2)
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

// Numbers that the documentation names.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	f := start(t)
	var loads atomic.Int64
	p, client := f.behind(-1)
	c := f.cache(client, constant("value", &loads), nil)
	want(t, "value")(c.Get(t.Context(), "warm")) // the scripts
	for _, step := range []struct {
		name  string
		trips int
		do    func() error
	}{
		{"miss", 2, func() error { _, err := c.Get(t.Context(), "key"); return err }},
		{"hit", 1, func() error { _, err := c.Get(t.Context(), "key"); return err }},
		{"invalidate", 1, func() error { return c.Invalidate(t.Context(), "key") }},
		{"miss again", 2, func() error { _, err := c.Get(t.Context(), "key"); return err }},
	} {
		p.Watch("", 0)
		if err := step.do(); err != nil {
			t.Errorf("%s: %v", step.name, err)
		}
		if n := p.Count(); n != step.trips {
			t.Errorf("%s: %d round trips, want %d", step.name, n, step.trips)
		}
	}
}

// Three processes, one of which invalidates: who calls there after it gets nothing older, and in the end nothing old is stored.
// HOLDFAST_SEED repeats the choices of a run.
func TestNothingStaleStaysUnderLoad(t *testing.T) {
	t.Parallel()
	seed, err := strconv.ParseUint(os.Getenv("HOLDFAST_SEED"), 10, 64)
	if err != nil {
		seed = rand.Uint64()
	}
	t.Logf("HOLDFAST_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	f := start(t)
	var version, settled atomic.Int64
	from := func(context.Context, string) (string, error) {
		v := version.Load()
		time.Sleep(time.Duration(v%4) * time.Millisecond)
		return fmt.Sprint(v), nil
	}
	var caches []*redisflight.Cache[string]
	for range 3 {
		caches = append(caches, f.cache(f.open(nil), from, func(o *redisflight.Options[string]) { o.TTL = time.Hour }))
	}
	done := make(chan struct{})
	var readers sync.WaitGroup
	for reader := range 12 {
		readers.Go(func() {
			at := reader % len(caches)
			for {
				select {
				case <-done:
					return
				default:
				}
				least := settled.Load()
				text, err := caches[at].Get(t.Context(), "key")
				got, _ := strconv.ParseInt(text, 10, 64)
				if err != nil || at == 0 && got < least {
					t.Errorf("process %d got version %d, %v; %d was invalidated before", at, got, err, least-1)
					return
				}
			}
		})
	}
	for range 200 {
		v := version.Add(1)
		if err := caches[0].Invalidate(t.Context(), "key"); err != nil {
			t.Error(err)
		}
		settled.Store(v)
		time.Sleep(time.Duration(random.Int64N(int64(6 * time.Millisecond))))
	}
	close(done)
	readers.Wait()
	for at, c := range caches {
		if got, err := c.Get(t.Context(), "key"); got != "200" || err != nil {
			t.Errorf("in the end process %d gets %q, %v", at, got, err)
		}
	}
}

// S19: nothing is left running, and no lease.
func TestS19Close(t *testing.T) {
	t.Parallel()
	f := start(t)
	c := f.cache(f.client, func(ctx context.Context, _ string) (string, error) {
		<-ctx.Done()
		return "", context.Cause(ctx)
	}, nil)
	done := make(chan error, 1)
	go func() {
		_, err := c.Get(t.Context(), "key")
		done <- err
	}()
	f.until("the lease", func() bool { return len(f.keys()) == 1 })
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := c.Close(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Close: %v", err)
	}
	if err := <-done; !errors.Is(err, singleflight.ErrClosed) {
		t.Errorf("the caller got %v", err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Errorf("Close again: %v", err)
	}
	if keys := f.keys(); len(keys) != 0 {
		t.Errorf("left: %q", keys)
	}
	if _, err := c.Get(t.Context(), "key"); !errors.Is(err, singleflight.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}
