package redislease_test

import (
	"context"
	"net"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/lease/leasetest"
	"github.com/holdfast-go/holdfast/lease/redislease"
)

func TestMain(m *testing.M) { testdb.Main(m) }

func TestStore(t *testing.T) {
	leasetest.Run(t, func(t testing.TB) lease.FencingStore { return shared(t, nil).Store })
}

func TestFaults(t *testing.T) {
	leasetest.RunFaults(t, func(t testing.TB) (lease.FencingStore, leasetest.Faults) {
		f := failing(t)
		return f.Store, leasetest.Faults{
			Delete:   func(ctx context.Context, name string) error { return f.client.Del(ctx, f.KeyOf(name)).Err() },
			Failover: func(context.Context) error { return f.failover() },
		}
	})
}

// A fixture is a store and its client.
type fixture struct {
	*redislease.Store

	client *redis.Client
	prefix string
}

func connect(t testing.TB, address string, change func(*redis.Options)) *redis.Client {
	t.Helper()
	o, err := redis.ParseURL(address)
	must(t, err)
	if change != nil {
		change(o)
	}
	client := redis.NewClient(o)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// shared is a store on the server of all tests, under a prefix of its own.
func shared(t testing.TB, change func(*redis.Options)) *fixture {
	t.Helper()
	address, prefix := testdb.Redis(t)
	client := connect(t, address, change)
	return &fixture{Store: redislease.New(client, &redislease.Options{Prefix: prefix}), client: client, prefix: prefix}
}

// A pair is a server of the test's own, and an empty one that takes its place.
type pair struct {
	fixture

	failover func() error
}

func failing(t testing.TB) *pair {
	t.Helper()
	full, empty := testdb.RedisServer(t), testdb.RedisServer(t)
	var at atomic.Value
	at.Store(hostOf(t, full))
	p := &pair{}
	p.client = redis.NewClient(&redis.Options{Addr: "primary", Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, at.Load().(string))
	}})
	t.Cleanup(func() { _ = p.client.Close() })
	p.Store = redislease.New(p.client, nil)
	p.failover = func() error {
		at.Store(hostOf(t, empty))
		return full.Kill()
	}
	return p
}

func hostOf(t testing.TB, s *testdb.Server) string {
	t.Helper()
	u, err := url.Parse(s.URL())
	must(t, err)
	return u.Host
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func claim(name, nonce string, ttl time.Duration) lease.Claim {
	return lease.Claim{Name: name, Nonce: nonce, TTL: ttl, Holder: "holder " + nonce}
}

// take acquires what must be free.
func take(t testing.TB, s lease.Store, c lease.Claim) lease.Term {
	t.Helper()
	g, err := s.TryAcquire(t.Context(), c)
	must(t, err)
	if !g.Held {
		t.Fatalf("%q is held: %+v", c.Name, g)
	}
	return lease.Term{Name: c.Name, Token: g.Token, Nonce: c.Nonce, TTL: c.TTL}
}

func renewed(t testing.TB, s lease.Store, want bool, terms ...lease.Term) {
	t.Helper()
	renewals, err := s.Renew(t.Context(), terms)
	must(t, err)
	for i, r := range renewals {
		if r.Held != want || r.Err != nil {
			t.Fatalf("renewal of %+v: %+v, want held %v", terms[i], r, want)
		}
	}
}

func released(t testing.TB, s lease.Store, want bool, term lease.Term) {
	t.Helper()
	held, err := s.Release(t.Context(), term)
	must(t, err)
	if held != want {
		t.Fatalf("release of %+v: held is %v, want %v", term, held, want)
	}
}
