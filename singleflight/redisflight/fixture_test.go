package redisflight_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redisproxy"
	"github.com/holdfast-go/holdfast/internal/testdb"
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
		o.Addr, o.ReadTimeout, o.MaxRetries = p.Address, 1500*time.Millisecond, retries
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
	o := &redisflight.Options[string]{Prefix: f.prefix, Observer: f, Jitter: -1, Timeout: 20 * time.Second} // a slow machine is no test
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
