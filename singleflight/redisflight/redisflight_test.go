package redisflight_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redisproxy"
	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/singleflight"
	"github.com/holdfast-go/holdfast/singleflight/redisflight"
)

// A fixture is a server, a prefix of the test's own, and what caches observed.
type fixture struct {
	t       *testing.T
	address string
	prefix  string
	client  *redis.Client

	mu     sync.Mutex // guards events
	events []holdfast.Event
}

func start(t *testing.T) *fixture {
	t.Helper()
	address, prefix := testdb.Redis(t)
	f := &fixture{t: t, address: address, prefix: prefix}
	f.client = f.open(nil)
	return f
}

func (f *fixture) open(change func(*redis.Options)) *redis.Client {
	f.t.Helper()
	o, err := redis.ParseURL(f.address)
	if err != nil {
		f.t.Fatal(err)
	}
	if change != nil {
		change(o)
	}
	client := redis.NewClient(o)
	f.t.Cleanup(func() { client.Close() })
	return client
}

// behind returns a proxy and a client behind it, which waits for a reply for a short time.
func (f *fixture) behind(retries int) (*redisproxy.Proxy, *redis.Client) {
	f.t.Helper()
	p := redisproxy.Start(f.t, f.client.Options().Addr)
	client := f.open(func(o *redis.Options) {
		o.Addr, o.ReadTimeout, o.MaxRetries = p.Address, 500*time.Millisecond, retries
	})
	if err := client.Ping(f.t.Context()).Err(); err != nil {
		f.t.Fatal(err)
	}
	return p, client
}

func (f *fixture) Observe(_ context.Context, e holdfast.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = append(f.events, e)
}

func (f *fixture) count(kind holdfast.EventKind) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.events {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

type load = func(ctx context.Context, key string) (string, error)

// cache returns what stands for a process of its own.
func (f *fixture) cache(client redisflight.Client, from load, change func(*redisflight.Options[string])) *redisflight.Cache[string] {
	f.t.Helper()
	o := &redisflight.Options[string]{Prefix: f.prefix, Observer: f, Jitter: -1}
	if change != nil {
		change(o)
	}
	c := redisflight.New(client, from, o)
	f.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			f.t.Errorf("Close: %v", err)
		}
	})
	return c
}

// keys returns what there is in Redis.
func (f *fixture) keys() []string {
	f.t.Helper()
	keys, err := f.client.Keys(f.t.Context(), f.prefix+"*").Result()
	if err != nil {
		f.t.Fatal(err)
	}
	return keys
}

// until waits for something that happens elsewhere.
func (f *fixture) until(what string, happened func() bool) {
	f.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !happened(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			f.t.Fatalf("%s: not within 20 s", what)
		}
	}
}

func want(t testing.TB, value string) func(string, error) {
	t.Helper()
	return func(got string, err error) {
		t.Helper()
		if got != value || err != nil {
			t.Errorf("got %.60q, %v; want %.60q", got, err, value)
		}
	}
}

func constant(value string, loads *atomic.Int64) load {
	return func(context.Context, string) (string, error) {
		loads.Add(1)
		return value, nil
	}
}

func TestOneLoadAcrossProcesses(t *testing.T) {
	t.Parallel()
	f := start(t)
	var loads atomic.Int64
	slow := func(context.Context, string) (string, error) {
		loads.Add(1)
		time.Sleep(50 * time.Millisecond)
		return "value", nil
	}
	var all sync.WaitGroup
	for range 5 {
		c := f.cache(f.open(nil), slow, nil)
		for range 20 {
			all.Go(func() { want(t, "value")(c.Get(t.Context(), "key")) })
		}
	}
	all.Wait()
	if loads.Load() != 1 || f.count(redisflight.EventLoaded) != 1 || f.count(redisflight.EventWaited) == 0 {
		t.Errorf("%d loads, %d waited", loads.Load(), f.count(redisflight.EventWaited))
	}
	if keys := f.keys(); len(keys) != 1 {
		t.Errorf("keys: %q", keys)
	}
}

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

// S10: who is cancelled at the moment of the acquisition leaves no lease behind, also if that arrives after the caller is gone.
func TestS10ACallerCancelledWhileItAcquiresLeavesNoOrphan(t *testing.T) {
	t.Parallel()
	f := start(t)
	var loads atomic.Int64
	want(t, "warm")(f.cache(f.client, constant("warm", &loads), nil).Get(t.Context(), "warm")) // the scripts
	p, client := f.behind(-1)
	long := func(o *redisflight.Options[string]) { o.OwnerTimeout = time.Hour }
	c := f.cache(client, constant("value", &loads), long)
	held, release := p.Hold("evalsha")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := c.Get(ctx, "key")
		done <- err
	}()
	<-held
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	release()
	if err := c.Close(t.Context()); err != nil { // which waits until the lease is given back
		t.Fatal(err)
	}
	if keys := f.keys(); len(keys) != 1 {
		t.Errorf("keys: %q", keys)
	}
	want(t, "value")(f.cache(f.client, constant("value", &loads), long).Get(t.Context(), "key"))
}

// S11: a load that ends without a value gives the lease back at once.
func TestS11ALoadThatPanicsGivesTheLeaseBack(t *testing.T) {
	t.Parallel()
	away := errors.New("the source is away")
	for name, fails := range map[string]struct {
		how  load
		want func(error) bool
	}{
		"panic": {func(context.Context, string) (string, error) { panic("boom") }, func(err error) bool {
			var panicked *singleflight.PanicError
			return errors.As(err, &panicked)
		}},
		"goexit": {func(context.Context, string) (string, error) { runtime.Goexit(); return "", nil }, func(err error) bool {
			return errors.Is(err, singleflight.ErrGoexit)
		}},
		"error": {func(context.Context, string) (string, error) { return "", away }, func(err error) bool { return errors.Is(err, away) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t)
			var loads atomic.Int64
			long := func(o *redisflight.Options[string]) { o.OwnerTimeout = time.Hour }
			c := f.cache(f.client, fails.how, long)
			if _, err := c.Get(t.Context(), "key"); !fails.want(err) {
				t.Errorf("got %v", err)
			}
			want(t, "value")(f.cache(f.client, constant("value", &loads), long).Get(t.Context(), "key"))
		})
	}
}

// S12: no value is taken for a lease or for an error, and what is not ours is replaced.
func TestS12ValuesOfAnyBytes(t *testing.T) {
	t.Parallel()
	f := start(t)
	raw := func(o *redisflight.Options[string]) {
		o.Encode = func(v string) ([]byte, error) { return []byte(v), nil }
		o.Decode = func(b []byte) (string, error) { return string(b), nil }
	}
	for i, value := range []string{
		"", "held", "granted", "1v", "1n" + strings.Repeat("A", 26), "\x00\xff\r\n", "'; flushall", strings.Repeat("x", 1<<22),
	} {
		var loads atomic.Int64
		for range 2 {
			want(t, value)(f.cache(f.client, constant(value, &loads), raw).Get(t.Context(), fmt.Sprint(i, "{}\x00\xff", value)))
		}
		if loads.Load() != 1 {
			t.Errorf("%.20q: %d loads", value, loads.Load())
		}
	}
}

// S13: the others take over within the owner timeout when the one that loads has died, whatever the TTL.
func TestS13ADeadLoaderHandsOver(t *testing.T) {
	t.Parallel()
	f := start(t)
	var loads atomic.Int64
	short := func(o *redisflight.Options[string]) { o.OwnerTimeout, o.TTL = 300*time.Millisecond, time.Hour }
	p, client := f.behind(-1)
	stuck := make(chan struct{})
	dead := f.cache(client, func(context.Context, string) (string, error) {
		loads.Add(1)
		<-stuck
		return "of the dead", nil
	}, short)
	var all sync.WaitGroup
	all.Go(func() { _, _ = dead.Get(t.Context(), "key") })
	f.until("the first load", func() bool { return loads.Load() == 1 })
	_, release := p.Hold("evalsha") // it renews no more, as after kill -9
	want(t, "value")(f.cache(f.client, constant("value", &loads), short).Get(t.Context(), "key"))
	release()
	close(stuck) // it comes back, as after SIGSTOP: its fill is refused
	all.Wait()
	want(t, "value")(f.cache(f.client, constant("another", &loads), short).Get(t.Context(), "key"))
	if loads.Load() != 2 {
		t.Errorf("%d loads", loads.Load())
	}
}

func TestALoadMayTakeLongerThanTheOwnerTimeout(t *testing.T) {
	t.Parallel()
	f := start(t)
	var loads atomic.Int64
	short := func(o *redisflight.Options[string]) { o.OwnerTimeout = 300 * time.Millisecond }
	from := func(context.Context, string) (string, error) {
		loads.Add(1)
		time.Sleep(1200 * time.Millisecond)
		return "value", nil
	}
	var all sync.WaitGroup
	for range 3 {
		c := f.cache(f.open(nil), from, short)
		all.Go(func() { want(t, "value")(c.Get(t.Context(), "key")) })
	}
	all.Wait()
	if loads.Load() != 1 {
		t.Errorf("%d loads", loads.Load())
	}
}

// S17: a TTL is kept to the millisecond, what cannot be decoded is replaced, and a store that fails loses no value.
func TestS17TTLAndUnreadableValues(t *testing.T) {
	t.Parallel()
	f := start(t)
	var loads atomic.Int64
	c := f.cache(f.client, constant("value", &loads), func(o *redisflight.Options[string]) { o.TTL = 500 * time.Millisecond })
	want(t, "value")(c.Get(t.Context(), "key"))
	key := f.keys()[0]
	if ttl, err := f.client.PTTL(t.Context(), key).Result(); err != nil || ttl <= 0 || ttl > 500*time.Millisecond {
		t.Errorf("the TTL is %v, %v", ttl, err)
	}
	for _, foreign := range []string{"", "1", "rubbish that is longer than a header is", "1v" + strings.Repeat("A", 26) + "{not JSON", "2n" + strings.Repeat("A", 26) + "of another format"} {
		before := loads.Load()
		if err := f.client.Set(t.Context(), key, foreign, time.Hour).Err(); err != nil {
			t.Fatal(err)
		}
		want(t, "value")(c.Get(t.Context(), "key"))
		want(t, "value")(c.Get(t.Context(), "key"))
		if loads.Load() != before+1 {
			t.Errorf("%q: %d loads", foreign, loads.Load()-before)
		}
	}
	never := f.cache(f.client, constant("value", &loads), func(o *redisflight.Options[string]) {
		o.Decode = func([]byte) (string, error) { return "", errors.New("cannot decode anything") }
	})
	for range 2 {
		want(t, "value")(never.Get(t.Context(), "key"))
	}
	mute := f.cache(f.client, constant("value", &loads), func(o *redisflight.Options[string]) {
		o.Encode = func(string) ([]byte, error) { return nil, errors.New("cannot encode anything") }
	})
	unstored := f.count(redisflight.EventUnstored)
	want(t, "value")(mute.Get(t.Context(), "mute"))
	if f.count(redisflight.EventUnstored) != unstored+1 {
		t.Error("nobody was told")
	}
}

func TestNotFoundIsRememberedInRedis(t *testing.T) {
	t.Parallel()
	f := start(t)
	var loads atomic.Int64
	remember := func(o *redisflight.Options[string]) { o.NotFoundTTL = time.Hour }
	from := func(context.Context, string) (string, error) {
		loads.Add(1)
		return "", fmt.Errorf("no such user: %w", singleflight.ErrNotFound)
	}
	for range 3 {
		_, err := f.cache(f.client, from, remember).Get(t.Context(), "key")
		if !errors.Is(err, singleflight.ErrNotFound) || !strings.HasPrefix(err.Error(), "no such user") {
			t.Errorf("got %v", err)
		}
	}
	if loads.Load() != 1 {
		t.Errorf("%d loads", loads.Load())
	}
	c := f.cache(f.client, constant("value", &loads), remember)
	if err := c.Invalidate(t.Context(), "key"); err != nil {
		t.Fatal(err)
	}
	want(t, "value")(c.Get(t.Context(), "key"))
}

func TestWhatCannotBeUsedIsRefused(t *testing.T) {
	t.Parallel()
	f := start(t)
	var loads atomic.Int64
	for _, o := range []redisflight.Options[string]{
		{Prefix: "{"}, {TTL: 1}, {NotFoundTTL: 1}, {NotFoundTTL: -1}, {OwnerTimeout: 1}, {Timeout: -1}, {Jitter: 2},
	} {
		c := redisflight.New(f.client, constant("", &loads), &o)
		if _, err := c.Get(t.Context(), "key"); !errors.Is(err, redisflight.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	c := redisflight.New(nil, constant("", &loads), nil)
	if err := c.Invalidate(t.Context(), "key"); !errors.Is(err, redisflight.ErrInvalid) {
		t.Errorf("no client: %v", err)
	}
}
