package redislease_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/lease/redislease"
)

func TestEachRequestIsOneRoundTrip(t *testing.T) {
	t.Parallel()
	p, f := behind(t, time.Minute)
	ctx := t.Context()
	slots := make([]string, 100)
	for i := range slots {
		slots[i] = fmt.Sprint("many#", i)
		take(t, f, claim(slots[i], slots[i], time.Hour))
	}
	for _, pin := range []struct {
		what string
		call func() error
	}{
		{"acquire", func() error { _, err := f.TryAcquire(ctx, claim("a", "n", time.Hour)); return err }},
		{"a semaphore of 100 that is full", func() error {
			g, err := f.TryAny(ctx, claim("many", "n", time.Hour), slots)
			if g.Held || g.Name != "many#0" {
				t.Errorf("%+v", g)
			}
			return err
		}},
		{"in turn", func() error {
			_, err := f.TryInTurn(ctx, claim("a", "m", time.Hour), lease.Waiter{ID: "w", TTL: time.Hour})
			return err
		}},
		{"leave", func() error { return f.Leave(ctx, "a", "w") }},
		{"look", func() error { _, err := f.Look(ctx, "a"); return err }},
		{"resign", func() error { _, err := f.RequestResign(ctx, "a"); return err }},
		{"evict", func() error { _, err := f.Evict(ctx, "a"); return err }},
	} {
		p.Watch("eval", 0)
		must(t, pin.call())
		if n := p.Count(); n != 1 {
			t.Errorf("%s: %d round trips", pin.what, n)
		}
	}
}

// A list looks at what is under its prefix alone, however that looks, and not at queues and keys of others.
func TestListTellsItsOwn(t *testing.T) {
	t.Parallel()
	f := shared(t, nil)
	ctx := t.Context()
	open := func(prefix string) *redislease.Store {
		return redislease.New(f.client, &redislease.Options{Prefix: f.prefix + prefix})
	}
	s := open("[a-c]*?\\")
	for _, other := range []string{"", "a", "a?", "[a-c]", "[a-c]*?\\x"} {
		take(t, open(other), claim("another's", "n", time.Hour))
	}
	var want []string
	for i := range 2500 { // more than one request looks at
		name := fmt.Sprintf("lease %04d", i)
		take(t, s, claim(name, "n", time.Hour))
		want = append(want, name)
	}
	if _, err := s.TryInTurn(ctx, claim("lease 0000", "m", time.Hour), lease.Waiter{ID: "w", TTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
	must(t, f.client.Set(ctx, f.prefix+"[a-c]*?\\{x}", strings.Repeat("1", 60), 0).Err())
	must(t, f.client.Rename(ctx, s.KeyOf("lease 2499"), f.prefix+"[a-c]*?\\{y}").Err()) // a copy that was moved is no lease
	want = want[:2499]
	var names []string
	for p := (lease.Page{Limit: 1000}); ; p.After = names[len(names)-1] {
		page, err := s.List(ctx, p)
		must(t, err)
		for _, h := range page {
			names = append(names, h.Name)
		}
		if len(page) < p.Limit {
			break
		}
	}
	if !slices.Equal(names, want) {
		t.Errorf("%d are listed, of %d", len(names), len(want))
	}
}

// The slots of a semaphore can be asked for in one script also in a cluster; names that only look like slots are spread.
func TestSlotsAreInOnePlace(t *testing.T) {
	t.Parallel()
	f := shared(t, nil)
	tag := func(name string) string {
		_, rest, _ := strings.Cut(f.KeyOf(name), "{")
		tag, _, _ := strings.Cut(rest, "}")
		return tag
	}
	for _, slot := range []string{"a#0", "a#7", "a#99"} {
		if tag(slot) != tag("a") || f.KeyOf(slot) == f.KeyOf("a") {
			t.Errorf("%q is at %q, and its semaphore at %q", slot, f.KeyOf(slot), f.KeyOf("a"))
		}
	}
	for _, name := range []string{"a#100", "a#07", "a#", "a#-1", "a#+1", "a#x", "#", "#1", "a#1#"} {
		if tag(name) == tag("a") {
			t.Errorf("%q is in the place of a", name)
		}
	}
	if tag("a#1#2") != tag("a#1#3") || tag("a#1#2") == tag("a") {
		t.Error("a semaphore whose name is like a slot")
	}
}

// A queue that nobody asks any more is gone with its last place.
func TestQueuesAreForgotten(t *testing.T) {
	t.Parallel()
	f := shared(t, nil)
	ctx := t.Context()
	take(t, f, claim("a", "n", time.Hour))
	for i, ttl := range []time.Duration{time.Hour, time.Minute} { // the longest counts
		if g, err := f.TryInTurn(ctx, claim("a", "m", time.Hour), lease.Waiter{ID: fmt.Sprint(i), TTL: ttl}); err != nil || g.Ahead != i {
			t.Fatalf("%+v, %v", g, err)
		}
	}
	for _, key := range []string{":turn", ":until"} {
		if left := f.client.PTTL(ctx, f.KeyOf("a")+key).Val(); left < 59*time.Minute || left > time.Hour+time.Second {
			t.Errorf("%s stays for %v", key, left)
		}
	}
	must(t, f.Leave(ctx, "a", "0"))
	must(t, f.Leave(ctx, "a", "1"))
	if n := f.client.Exists(ctx, f.KeyOf("a")+":turn", f.KeyOf("a")+":until").Val(); n != 0 {
		t.Errorf("%d keys of an empty queue", n)
	}
}
