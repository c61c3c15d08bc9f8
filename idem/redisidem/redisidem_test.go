package redisidem_test

import (
	"context"
	"math/rand/v2"
	"net"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/idem/idemtest"
	"github.com/holdfast-go/holdfast/idem/redisidem"
	"github.com/holdfast-go/holdfast/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

func TestStore(t *testing.T) {
	idemtest.RunStore(t, func(t testing.TB) idem.Store { return shared(t, nil).Store })
}

// A fixture is a store and its client.
type fixture struct {
	*redisidem.Store

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
	return &fixture{Store: redisidem.New(client, &redisidem.Options{Prefix: prefix}), client: client, prefix: prefix}
}

// alone is a store on a server of the test's own.
func alone(t testing.TB) *fixture {
	t.Helper()
	client := connect(t, testdb.RedisServer(t).URL(), nil)
	return &fixture{Store: redisidem.New(client, nil), client: client, prefix: "idem:"}
}

// A pair is a server of the test's own, and an empty one that takes its place.
type pair struct {
	fixture

	failover func()
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
	p.Store = redisidem.New(p.client, nil)
	p.failover = func() {
		t.Helper()
		at.Store(hostOf(t, empty))
		must(t, full.Kill())
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

// claim asks for a key of that value.
func claim(value string, lease time.Duration) idem.Claim {
	key := idem.Key{Scope: "tenant", Name: "charge", Value: value}
	return idem.Claim{ID: key.ID(), Scope: key.Scope, Name: key.Name, Nonce: rand.Int64(), Lease: lease, Fingerprint: []byte("fp"), Input: []byte("in")}
}

func termOf(r idem.Record) idem.Term { return idem.Term{ID: r.ID, Nonce: r.Nonce, Epoch: r.Epoch} }

// begun claims what must be free.
func begun(t testing.TB, s idem.Store, c idem.Claim) idem.Record {
	t.Helper()
	r, err := s.Claim(t.Context(), c)
	must(t, err)
	if r.State != idem.Running || r.Nonce != c.Nonce || r.Attempts != 1 {
		t.Fatalf("%+v is not free: %+v", c, r)
	}
	return r
}

// yes and no are for what a term came to.
func yes(t testing.TB) func(held bool, err error) {
	return func(held bool, err error) {
		t.Helper()
		if err != nil || !held {
			t.Fatalf("held is %v, %v", held, err)
		}
	}
}

func no(t testing.TB) func(held bool, err error) {
	return func(held bool, err error) {
		t.Helper()
		if err != nil || held {
			t.Fatalf("held is %v, %v", held, err)
		}
	}
}
