package rediscounter_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/counter/rediscounter"
	"github.com/holdfast-go/holdfast/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

func open(t testing.TB, address string, change func(*redis.Options)) *redis.Client {
	t.Helper()
	o, err := redis.ParseURL(address)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(o)
	}
	client := redis.NewClient(o)
	t.Cleanup(func() { client.Close() })
	return client
}

// A fixture is a client, counters of the test's own, and what they observed.
type fixture struct {
	*rediscounter.Counters
	client *redis.Client
	o      rediscounter.Options

	mu     sync.Mutex // guards events
	events []holdfast.Event
}

func start(t testing.TB, change func(*rediscounter.Options)) *fixture {
	t.Helper()
	address, prefix := testdb.Redis(t)
	f := &fixture{client: open(t, address, nil)}
	f.o = rediscounter.Options{Prefix: prefix, Observer: f}
	if change != nil {
		change(&f.o)
	}
	f.Counters = rediscounter.New(f.client, &f.o)
	return f
}

func (f *fixture) Observe(_ context.Context, e holdfast.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = append(f.events, e)
}

// seen returns the events since the last call.
func (f *fixture) seen() []holdfast.Event {
	f.mu.Lock()
	defer f.mu.Unlock()
	events := f.events
	f.events = nil
	return events
}

// want fails unless the result is a value.
func want(t testing.TB, value int64) func(int64, error) {
	t.Helper()
	return func(got int64, err error) {
		t.Helper()
		if err != nil || got != value {
			t.Errorf("%d, %v; want %d", got, err, value)
		}
	}
}

func TestTheSameOperationCountsOnce(t *testing.T) {
	t.Parallel()
	f, ctx := start(t, nil), t.Context()
	for range 3 {
		want(t, 5)(f.Add(ctx, "stock", 5, "delivery 1"))
	}
	for range 3 {
		want(t, 3)(f.Take(ctx, "stock", 2, "order 1"))
	}
	want(t, 5)(f.Add(ctx, "stock", 5, "delivery 1")) // the first result, whatever came after
	want(t, 1)(f.Take(ctx, "stock", 2, "order 2"))
	want(t, 1)(f.Get(ctx, "stock"))
	want(t, 4)(f.Add(ctx, "other", 4, "delivery 1")) // an ID is one counter's
	want(t, 0)(f.Get(ctx, "none"))
	want(t, -3)(f.Add(ctx, "below", -3, ""))
	want(t, -6)(f.Add(ctx, "below", -3, "")) // without an ID each call counts
}

func TestEveryKeyOfACounterHasItsTag(t *testing.T) {
	t.Parallel()
	f, ctx := start(t, nil), t.Context()
	for _, name := range []string{"plain", "{", "}", "{}", "}{", "{a}b{c}", "\x00", "\xff", "with spaces\r\n*1"} {
		want(t, 2)(f.Add(ctx, name, 2, "op {x}"))
		want(t, 1)(f.Take(ctx, name, 1, ""))
		want(t, 1)(f.Get(ctx, name))
		key := f.KeyOf(name)
		keys, err := f.client.Keys(ctx, key+"*").Result()
		if err != nil || len(keys) != 3 {
			t.Errorf("%q has the keys %q, %v", name, keys, err)
		}
		for _, k := range keys {
			if tag := tagOf(k); tag == "" || tag != tagOf(key) {
				t.Errorf("%q has the tag %q in %q", name, tag, k)
			}
		}
	}
	// What begins otherwise would be somewhere else: nothing but counters of the nine names is below the prefix.
	if keys, err := f.client.Keys(ctx, f.o.Prefix+"{*}*").Result(); err != nil || len(keys) != 27 {
		t.Errorf("%d keys, %v", len(keys), err)
	}
}

// tagOf returns what chooses the slot of a key in a cluster: what is between the first brace and the next closing one.
func tagOf(key string) string {
	_, rest, _ := strings.Cut(key, "{")
	tag, _, _ := strings.Cut(rest, "}")
	return tag
}

func TestScriptsThatAreFlushedAreLoadedAgain(t *testing.T) {
	t.Parallel()
	server := testdb.RedisServer(t)
	client, ctx := open(t, server.URL(), nil), t.Context()
	f := rediscounter.New(client, nil)
	for i := range int64(5) {
		want(t, 2*i+3)(f.Add(ctx, "n", 3, ""))
		if err := client.ScriptFlush(ctx).Err(); err != nil {
			t.Fatal(err)
		}
		want(t, 2*i+2)(f.Take(ctx, "n", 1, ""))
	}
}
