package rediscounter_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/counter/rediscounter"
	"github.com/holdfast-go/holdfast/internal/redisproxy"
	"github.com/holdfast-go/holdfast/internal/testdb"
)

const patience = 300 * time.Millisecond

// behind returns a proxy and a client behind it, which waits for a reply for a short time.
func behind(t *testing.T, f *fixture, retries int) (*redisproxy.Proxy, *redis.Client) {
	t.Helper()
	p := redisproxy.Start(t, f.client.Options().Addr)
	address, _ := testdb.Redis(t)
	client := open(t, address, func(o *redis.Options) { o.Addr, o.ReadTimeout, o.MaxRetries = p.Address, patience, retries })
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	return p, client
}

// C1: go-redis sends a command again when its reply is late.
func TestC1ALostReplyCountsOnce(t *testing.T) {
	t.Parallel()
	f, ctx := start(t, nil), t.Context()
	p, client := behind(t, f, 0) // 0 is go-redis' default of 3 retries
	c := rediscounter.New(client, &f.o)
	want(t, 1)(f.Add(ctx, "load", 1, "")) // the scripts
	want(t, 0)(f.Take(ctx, "load", 1, ""))

	p.Watch("incr", 2)
	plain := f.o.Prefix + "plain"
	want(t, 3)(client.Incr(ctx, plain).Result()) // one call, no error

	p.Watch("evalsha", 2)
	want(t, 5)(c.Add(ctx, "ours", 5, ""))
	if n := p.Count(); n != 3 {
		t.Errorf("add was sent %d times", n)
	}
	want(t, 5)(f.Get(ctx, "ours"))
	p.Watch("evalsha", 2)
	want(t, 3)(c.Take(ctx, "ours", 2, "order"))
	if n := p.Count(); n != 3 {
		t.Errorf("take was sent %d times", n)
	}
	want(t, 3)(f.Get(ctx, "ours"))
	if events := f.seen(); len(events) != 2 || events[0].Kind != rediscounter.EventReplayed || events[1].Kind != rediscounter.EventReplayed {
		t.Errorf("events: %v", events)
	}
	// The last of what there was: the second attempt finds nothing left, and must not say so.
	p.Watch("evalsha", 1)
	want(t, 0)(c.Take(ctx, "ours", 3, ""))
}

func TestALostReplyIsUnknownAndTheSameOperationFindsOut(t *testing.T) {
	t.Parallel()
	for name, retries := range map[string]int{"one attempt": -1, "two attempts": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, ctx := start(t, nil), holdfast.WithCorrelationID(t.Context(), "request 7")
			p, client := behind(t, f, retries)
			c := rediscounter.New(client, &f.o)
			want(t, 1)(c.Add(ctx, "n", 1, ""))
			p.Watch("evalsha", 10)
			_, err := c.Add(ctx, "n", 4, "op")
			var failure *rediscounter.Error
			if holdfast.OutcomeOf(err) != holdfast.Unknown || !errors.As(err, &failure) || failure.Op != "add" {
				t.Errorf("%v is %v", err, holdfast.OutcomeOf(err))
			}
			events := f.seen()
			if len(events) != 1 || events[0].Kind != rediscounter.EventUnknown || !errors.Is(events[0].Err, err) || events[0].CorrelationID != "request 7" {
				t.Errorf("events: %+v", events)
			}
			p.Watch("", 0)
			want(t, 5)(c.Add(ctx, "n", 4, "op"))
			want(t, 5)(f.Get(ctx, "n"))
		})
	}
}

func TestWhatWasNeverSentIsNotApplied(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	nowhere := func(o *redis.Options) { o.Addr, o.DialerRetries, o.MaxRetries = "127.0.0.1:1", 1, -1 }
	address, _ := testdb.Redis(t)
	closed := open(t, address, func(o *redis.Options) { o.MaxRetries = -1 })
	closed.Close()
	for _, c := range []struct {
		name    string
		client  *redis.Client
		outcome holdfast.Outcome
	}{
		{"one failed dial", open(t, address, nowhere), holdfast.NotApplied},
		// Attempts before the last may have been sent.
		{"some failed dials", open(t, address, func(o *redis.Options) { nowhere(o); o.MaxRetries = 1 }), holdfast.Unknown},
		{"closed", closed, holdfast.NotApplied},
	} {
		_, err := rediscounter.New(c.client, &f.o).Add(t.Context(), "n", 1, "")
		if err == nil || holdfast.OutcomeOf(err) != c.outcome {
			t.Errorf("%s: %v is %v, want %v", c.name, err, holdfast.OutcomeOf(err), c.outcome)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Add(ctx, "n", 1, ""); !errors.Is(err, context.Canceled) || holdfast.OutcomeOf(err) != holdfast.NotApplied {
		t.Errorf("cancelled before: %v is %v", err, holdfast.OutcomeOf(err))
	}
}

// A replica that was a master before refuses by the script's first write. The first attempt may have counted.
func TestARefusalOfTheServerProvesOneAttempt(t *testing.T) {
	t.Parallel()
	server := testdb.RedisServer(t)
	admin, ctx := open(t, server.URL(), nil), t.Context()
	once := open(t, server.URL(), func(o *redis.Options) { o.MaxRetries = -1 })
	for _, c := range []struct{ on, off []any }{
		{on: []any{"replicaof", "127.0.0.1", "1"}, off: []any{"replicaof", "no", "one"}},                                      // READONLY
		{on: []any{"config", "set", "maxmemory", "1"}, off: []any{"config", "set", "maxmemory", "0"}},                         // OOM
		{on: []any{"config", "set", "min-replicas-to-write", "1"}, off: []any{"config", "set", "min-replicas-to-write", "0"}}, // NOREPLICAS
	} {
		if err := admin.Do(ctx, c.on...).Err(); err != nil {
			t.Fatal(err)
		}
		for client, outcome := range map[*redis.Client]holdfast.Outcome{once: holdfast.NotApplied, admin: holdfast.Unknown} {
			counters := rediscounter.New(client, nil)
			for _, change := range []func(context.Context, string, int64, string) (int64, error){counters.Add, counters.Take} {
				_, err := change(ctx, "n", 1, "")
				if errors.Is(err, rediscounter.ErrInsufficient) { // there is none to take: nothing was to be written
					continue
				}
				if err == nil || holdfast.OutcomeOf(err) != outcome {
					t.Errorf("%v: %v is %v, want %v", c.on, err, holdfast.OutcomeOf(err), outcome)
				}
			}
		}
		if err := admin.Do(ctx, c.off...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	want(t, 0)(rediscounter.New(admin, nil).Get(ctx, "n"))
}

// Numbers that the documentation names.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	f, ctx := start(t, nil), t.Context()
	p, client := behind(t, f, 0)
	c := rediscounter.New(client, &f.o)
	want(t, 9)(c.Add(ctx, "n", 9, "first"))
	want(t, 8)(c.Take(ctx, "n", 1, ""))
	for name, call := range map[string]func() error{
		"add":     func() error { _, err := c.Add(ctx, "n", 1, ""); return err },
		"add op":  func() error { _, err := c.Add(ctx, "n", 1, "second"); return err },
		"replay":  func() error { _, err := c.Add(ctx, "n", 9, "first"); return err },
		"take":    func() error { _, err := c.Take(ctx, "n", 1, ""); return err },
		"refusal": func() error { _, err := c.Take(ctx, "none", 1, ""); return err },
		"get":     func() error { _, err := c.Get(ctx, "n"); return err },
	} {
		p.Watch("", 0)
		if err := call(); err != nil && !errors.Is(err, rediscounter.ErrInsufficient) {
			t.Errorf("%s: %v", name, err)
		}
		if n := p.Count(); n != 1 {
			t.Errorf("%s: %d round trips", name, n)
		}
	}
}
