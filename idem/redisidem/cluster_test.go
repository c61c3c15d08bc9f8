package redisidem_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/idem/idemtest"
	"github.com/holdfast-go/holdfast/idem/redisidem"
	"github.com/holdfast-go/holdfast/internal/rediscluster"
)

func TestStoreOnACluster(t *testing.T) {
	t.Parallel()
	c := rediscluster.Start(t)
	client := c.Client(t, nil)
	prefixes := make(chan string, 1000)
	for n := range cap(prefixes) {
		prefixes <- fmt.Sprint(n, ":")
	}
	store := func(testing.TB) idem.Store { return redisidem.New(client, &redisidem.Options{Prefix: <-prefixes}) }
	must(t, store(t).Check(t.Context()))
	t.Run("rules", func(t *testing.T) { idemtest.RunStore(t, store) })
	s := store(t)
	var terms []idem.Term
	for i := range 200 {
		terms = append(terms, termOf(begun(t, s, claim(fmt.Sprint(i), time.Minute))))
	}
	for i, node := range c.Nodes {
		if keys, err := node.DBSize(t.Context()).Result(); err != nil || keys < 50 {
			t.Errorf("node %d has %d keys, %v", i, keys, err)
		}
		must(t, node.ScriptFlush(t.Context()).Err())
	}
	for _, renewal := range renewed(t, s, terms) {
		if renewal != idem.RenewalDone {
			t.Fatal(renewal)
		}
	}
	for _, filter := range []idem.Filter{{Limit: 1000}, {Limit: 1000, States: allOpen}} {
		list, err := s.List(t.Context(), filter)
		if err != nil || len(list) != 200 || list[7].ID != terms[7].ID {
			t.Errorf("%d keys are listed, %v", len(list), err)
		}
	}
	for i, term := range terms {
		if i%2 == 0 {
			yes(t)(s.Park(t.Context(), term, idem.Parking{State: idem.Unknown}))
		}
	}
	taken, err := s.TakeDue(t.Context(), due([]string{"charge"}, 1000, allOpen...))
	if err != nil || len(taken) != 100 || taken[7].ID != terms[14].ID {
		t.Errorf("%d keys are taken, %v", len(taken), err)
	}
}

func renewed(t testing.TB, s idem.Store, terms []idem.Term) []idem.Renewal {
	t.Helper()
	renewals, err := s.Renew(t.Context(), terms, time.Minute)
	must(t, err)
	return renewals
}

// A renewal of many keys is one request to each node.
func TestRequestsOfACluster(t *testing.T) {
	t.Parallel()
	c := rediscluster.Start(t)
	counter := &requests{}
	client := c.Client(t, func(o *redis.ClusterOptions) {
		o.NewClient = func(o *redis.Options) *redis.Client {
			node := redis.NewClient(o)
			node.AddHook(counter)
			return node
		}
	})
	s := redisidem.New(client, nil)
	must(t, s.Check(t.Context()))
	terms := make([]idem.Term, 1000)
	for i := range terms {
		terms[i] = termOf(begun(t, s, claim(fmt.Sprint(i), time.Minute)))
	}
	renewed(t, s, terms) // each node knows the script
	counter.n.Store(0)
	for _, renewal := range renewed(t, s, terms) {
		if renewal != idem.RenewalDone {
			t.Fatal(renewal)
		}
	}
	if n := counter.n.Load(); n != 2 {
		t.Errorf("1000 renewals are %d requests to 2 nodes", n)
	}
}

// A node that is down costs its own keys, and those later: nobody knows that they are lost.
func TestANodeIsDown(t *testing.T) {
	t.Parallel()
	c := rediscluster.Start(t)
	s := redisidem.New(c.Client(t, func(o *redis.ClusterOptions) { o.MaxRedirects = 1 }), nil)
	const keys = 128
	var terms []idem.Term
	down := map[idem.ID]bool{}
	for i := range keys {
		terms = append(terms, termOf(begun(t, s, claim(fmt.Sprint(i), time.Minute))))
		slot, err := c.Nodes[0].ClusterKeySlot(t.Context(), s.KeyOf(terms[i].ID)).Result()
		must(t, err)
		down[terms[i].ID] = slot >= 8192
		if i%2 == 0 {
			yes(t)(s.Park(t.Context(), terms[i], idem.Parking{State: idem.Unknown}))
		}
	}
	must(t, c.Servers[1].Kill())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	renewals, err := s.Renew(ctx, terms, time.Minute)
	must(t, err)
	became := map[idem.Renewal]int{}
	for i, r := range renewals {
		became[r]++
		want := idem.RenewalDone
		switch {
		case down[terms[i].ID]:
			want = idem.RenewalLater
		case i%2 == 0:
			want = idem.RenewalLost
		}
		if r != want {
			t.Errorf("renewal %d is %d, want %d", i, r, want)
		}
	}
	if len(became) != 3 {
		t.Errorf("renewals came to %v", became)
	}
	taken, err := s.TakeDue(ctx, due([]string{"charge"}, keys, allOpen...))
	if err != nil || len(taken) != became[idem.RenewalLost] {
		t.Errorf("%d are taken of %d on the node that is up, %v", len(taken), became[idem.RenewalLost], err)
	}
	if list, err := s.List(ctx, idem.Filter{States: allOpen}); err == nil {
		t.Errorf("a list without the keys of a node has %d", len(list))
	}
}

// While a slot moves its keys are refused or answered, and never given twice; then all is as it was.
func TestASlotThatMoves(t *testing.T) {
	t.Parallel()
	c := rediscluster.Start(t)
	s := redisidem.New(c.Client(t, nil), nil)
	ctx := t.Context()
	must(t, s.Check(ctx))
	r := begun(t, s, claim("a", time.Hour))
	yes(t)(s.Mark(ctx, termOf(r), []byte("steps")))
	slot := c.Open(t, s.KeyOf(r.ID))
	for _, key := range append(slot.Keys(t), "") {
		got, err := s.Claim(ctx, claim("a", time.Hour))
		if err == nil && got.Nonce != r.Nonce {
			t.Fatalf("it was given again: %+v", got)
		}
		if held, err := s.Mark(ctx, termOf(r), []byte("steps")); err == nil && !held {
			t.Fatal("it was lost")
		}
		if key != "" {
			slot.Move(t, key)
		}
	}
	slot.Close(t)
	if got, err := s.Claim(ctx, claim("a", time.Hour)); err != nil || got.Nonce != r.Nonce || string(got.Steps) != "steps" {
		t.Fatalf("%+v, %v", got, err)
	}
	if list, err := s.List(ctx, idem.Filter{States: allOpen}); err != nil || len(list) != 1 {
		t.Errorf("%d are open, %v", len(list), err)
	}
	yes(t)(s.Complete(ctx, termOf(r), idem.Answer{State: idem.Completed}, time.Hour))
}

// All that a script touches is in one slot, whatever the key.
func TestSlots(t *testing.T) {
	t.Parallel()
	f, slots := shared(t, nil), map[string]int{}
	for i := range 2000 {
		slots[f.KeyOf(claim(fmt.Sprint(i), 0).ID)[:len(f.prefix)+4]]++
	}
	if len(slots) != 64 {
		t.Errorf("2000 keys are in %d parts", len(slots))
	}
	for tag, n := range slots {
		if tag[:len(f.prefix)] != f.prefix || tag[len(f.prefix)] != '{' || tag[len(tag)-1] != '}' || n > 80 {
			t.Errorf("%q has %d keys", tag, n)
		}
	}
}
