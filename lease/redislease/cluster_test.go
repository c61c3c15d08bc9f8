package redislease_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/rediscluster"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/lease/leasetest"
	"github.com/holdfast-go/holdfast/lease/redislease"
)

// few makes a redirection one too many: what needs two is a mistake.
func few(o *redis.ClusterOptions) { o.MaxRedirects = 1 }

func TestStoreOnACluster(t *testing.T) {
	t.Parallel()
	cluster := rediscluster.Start(t)
	client := cluster.Client(t, few)
	n := 0
	stores := make(chan *redislease.Store, 1000)
	for range cap(stores) {
		n++
		stores <- redislease.New(client, &redislease.Options{Prefix: fmt.Sprint(n, ":")})
	}
	t.Run("rules", func(t *testing.T) {
		leasetest.Run(t, func(testing.TB) lease.FencingStore { return <-stores })
	})
	for i, node := range cluster.Nodes {
		if keys, err := node.DBSize(t.Context()).Result(); err != nil || keys < 400 {
			t.Errorf("node %d has %d keys, %v", i, keys, err)
		}
		must(t, node.ScriptFlush(t.Context()).Err())
	}
	s := <-stores
	var terms []lease.Term
	for i := range 64 { // names of every kind and slot
		terms = append(terms, take(t, s, claim(fmt.Sprint("{", i, "}x{}", i), "n", time.Minute)))
	}
	renewed(t, s, true, terms...)
	servers, err := s.Servers(t.Context())
	if err != nil || len(servers) != 2 || !servers[0].Primary || !servers[1].Primary {
		t.Errorf("%+v, %v", servers, err)
	}
}

// A node that is down costs its own leases.
func TestANodeIsDown(t *testing.T) {
	t.Parallel()
	cluster := rediscluster.Start(t)
	s := redislease.New(cluster.Client(t, few), nil)
	var terms []lease.Term
	for i := range 64 {
		terms = append(terms, take(t, s, claim(fmt.Sprint(i), "n", time.Minute)))
	}
	on, err := cluster.Nodes[1].DBSize(t.Context()).Result()
	must(t, err)
	must(t, cluster.Servers[1].Kill())
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	renewals, err := s.Renew(ctx, terms)
	must(t, err)
	held, unknown := 0, int64(0)
	for _, r := range renewals {
		switch {
		case r.Err != nil && !r.Held:
			unknown++
		case r.Held && r.Err == nil:
			held++
		}
	}
	if unknown != on || held != 64-int(on) || on == 0 || on == 64 {
		t.Errorf("%d are renewed, of %d nobody knows; %d were on the node that is down", held, unknown, on)
	}
}

func TestALeaseIsInOneSlotWhateverItsName(t *testing.T) {
	t.Parallel()
	f := shared(t, nil)
	keys := map[string]bool{}
	names := []string{"plain", "{", "}", "{}", "}{", "{a}b{c}", "{}a", "\x00", "\xff", "with spaces\r\n*1", "a", "A", "é", "e\u0301", strings.Repeat("x", 1<<20)}
	for _, name := range names {
		key := f.KeyOf(name)
		keys[key] = true
		_, rest, _ := strings.Cut(key, "{")
		if tag, _, ok := strings.Cut(rest, "}"); !ok || len(tag) != 64 || !strings.HasSuffix(key, "}") {
			t.Errorf("%q has the key %q", name, key)
		}
		term := take(t, f, claim(name, "n", time.Minute))
		if g, err := f.TryAcquire(t.Context(), claim(name, "m", time.Minute)); err != nil || g.Held || g.Holder != "holder n" {
			t.Errorf("%q: %+v, %v", name, g, err)
		}
		renewed(t, f, true, term)
		released(t, f, true, term)
	}
	if len(keys) != len(names) {
		t.Errorf("%d names have %d keys", len(names), len(keys))
	}
}
