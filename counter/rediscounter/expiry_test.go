package rediscounter_test

import (
	"slices"
	"testing"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/counter/rediscounter"
)

func kinds(events []holdfast.Event) []holdfast.EventKind {
	var kinds []holdfast.EventKind
	for _, e := range events {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

func (f *fixture) ttl(t *testing.T, name string) time.Duration {
	t.Helper()
	left, err := f.client.PTTL(t.Context(), f.KeyOf(name)).Result()
	if err != nil {
		t.Fatal(err)
	}
	return left
}

// C2: a counter whose expiry was lost would stay for ever.
func TestC2AnExpiryThatWasLostIsRepaired(t *testing.T) {
	t.Parallel()
	f, ctx := start(t, func(o *rediscounter.Options) { o.TTL = time.Hour }), t.Context()
	want(t, 5)(f.Add(ctx, "n", 5, ""))
	if left := f.ttl(t, "n"); left <= 0 || left > time.Hour {
		t.Errorf("the first change left an expiry of %v", left)
	}
	if events := f.seen(); len(events) != 0 {
		t.Errorf("events: %v", events)
	}
	for _, change := range []func() (int64, error){
		func() (int64, error) { return f.Add(ctx, "n", 1, "") },
		func() (int64, error) { return f.Take(ctx, "n", 1, "") },
	} {
		if err := f.client.Persist(ctx, f.KeyOf("n")).Err(); err != nil {
			t.Fatal(err)
		}
		if _, err := change(); err != nil {
			t.Fatal(err)
		}
		if left := f.ttl(t, "n"); left <= 0 || left > time.Hour {
			t.Errorf("after the change the expiry is %v", left)
		}
		if got := kinds(f.seen()); !slices.Equal(got, []holdfast.EventKind{rediscounter.EventExpiryRepaired}) {
			t.Errorf("events: %v", got)
		}
	}
	// A change does not prolong a life.
	if err := f.client.PExpire(ctx, f.KeyOf("n"), time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	want(t, 6)(f.Add(ctx, "n", 1, ""))
	want(t, 5)(f.Take(ctx, "n", 1, ""))
	if left := f.ttl(t, "n"); left > time.Minute {
		t.Errorf("the life was prolonged to %v", left)
	}
}

// C3: a counter that expires between a look and a change comes back without an expiry.
func TestC3ACounterThatExpiresHasAnExpiryAgain(t *testing.T) {
	t.Parallel()
	f, ctx := start(t, func(o *rediscounter.Options) { o.TTL = time.Millisecond }), t.Context()
	for range 200 {
		if _, err := f.Add(ctx, "n", 1, ""); err != nil {
			t.Fatal(err)
		}
		if left := f.ttl(t, "n"); left == -1 {
			t.Fatal("the counter will stay for ever")
		}
	}
	if got := kinds(f.seen()); len(got) != 0 {
		t.Errorf("events: %v", got)
	}
}

func TestWithoutATTLACounterStays(t *testing.T) {
	t.Parallel()
	f, ctx := start(t, nil), t.Context()
	want(t, 5)(f.Add(ctx, "n", 5, ""))
	if left := f.ttl(t, "n"); left != -1 {
		t.Errorf("an expiry of %v", left)
	}
}

func TestTheLedgerExpires(t *testing.T) {
	t.Parallel()
	f, ctx := start(t, func(o *rediscounter.Options) { o.Retention = time.Hour }), t.Context()
	want(t, 5)(f.Add(ctx, "n", 5, "op"))
	want(t, 4)(f.Take(ctx, "n", 1, "other"))
	for _, operation := range []string{"op", "other"} {
		entry, life := f.EntryOf("n", operation)
		left, err := f.client.PTTL(ctx, entry).Result()
		if err != nil || life != time.Hour || left <= 0 || left > time.Hour {
			t.Errorf("%s stays for %v, %v", operation, left, err)
		}
		f.client.Del(ctx, entry)
	}
	want(t, 9)(f.Add(ctx, "n", 5, "op")) // forgotten: that is what Retention is about
	if _, life := f.EntryOf("n", ""); life != 10*time.Minute {
		t.Errorf("a made-up operation stays for %v", life)
	}
	short := start(t, func(o *rediscounter.Options) { o.Retention = time.Minute })
	if _, life := short.EntryOf("n", ""); life != time.Minute {
		t.Errorf("a made-up operation stays for %v", life)
	}
}
