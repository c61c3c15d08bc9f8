package redisflight_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/singleflight/redisflight"
)

// S9: a fill that was read before an invalidation by another process is not stored, and its callers get what is newer.
func TestS9AFillThatWasInvalidatedElsewhereIsRefused(t *testing.T) {
	t.Parallel()
	f := start(t)
	var version, loads atomic.Int64
	reading, goOn := make(chan struct{}, 10), make(chan struct{})
	from := func(context.Context, string) (string, error) {
		loads.Add(1)
		v := fmt.Sprint("version ", version.Load())
		reading <- struct{}{}
		<-goOn
		return v, nil
	}
	first, second := f.cache(f.client, from, nil), f.cache(f.open(nil), from, nil)
	var all sync.WaitGroup
	all.Go(func() { want(t, "version 1")(first.Get(t.Context(), "key")) })
	<-reading
	version.Store(1) // commit
	if err := second.Invalidate(t.Context(), "key"); err != nil {
		t.Fatal(err)
	}
	all.Go(func() { want(t, "version 1")(first.Get(t.Context(), "key")) }) // joins, after the invalidation
	close(goOn)
	all.Wait()
	want(t, "version 1")(second.Get(t.Context(), "key"))
	if f.count(redisflight.EventRefused) != 1 || loads.Load() != 2 {
		t.Errorf("%d refused, %d loads", f.count(redisflight.EventRefused), loads.Load())
	}
}

// However often it is refused, a flight ends, and its callers get what was loaded after they came.
func TestAFlightEndsUnderAnyNumberOfInvalidations(t *testing.T) {
	t.Parallel()
	f := start(t)
	var loads atomic.Int64
	other := f.cache(f.open(nil), constant("", &loads), nil)
	var all sync.WaitGroup
	var c *redisflight.Cache[string]
	fourth := make(chan struct{})
	c = f.cache(f.client, func(context.Context, string) (string, error) {
		n := loads.Add(1)
		if n == 4 {
			close(fourth)
		}
		if err := other.Invalidate(t.Context(), "key"); n < 4 && err != nil {
			t.Error(err)
		}
		if n == 3 { // one who comes now knows of the third invalidation, and must not get what was read before it
			all.Go(func() {
				if got, err := c.Get(t.Context(), "key"); got < "4" || err != nil {
					t.Errorf("a late caller got %q, %v", got, err)
				}
			})
			select {
			case <-fourth:
			case <-time.After(10 * time.Second):
				t.Error("a late caller joined")
			}
		}
		return fmt.Sprint(n), nil
	}, nil)
	want(t, "3")(c.Get(t.Context(), "key"))
	all.Wait()
	if keys := f.keys(); len(keys) != 0 {
		t.Errorf("keys: %q", keys)
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
