package redisidem_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/idem"
)

var allOpen = []idem.State{idem.Running, idem.Unknown, idem.Pending}

// parked is a key that is due after a time.
func parked(t testing.TB, s idem.Store, c idem.Claim, state idem.State, after time.Duration) idem.Record {
	t.Helper()
	r := begun(t, s, c)
	yes(t)(s.Park(t.Context(), termOf(r), idem.Parking{State: state, After: after}))
	return r
}

func due(names []string, limit int, states ...idem.State) idem.Due {
	return idem.Due{Names: names, States: states, Lease: time.Minute, Limit: limit}
}

func named(name, value string) idem.Claim {
	key := idem.Key{Scope: "tenant", Name: name, Value: value}
	c := claim(value, time.Minute)
	c.ID, c.Name = key.ID(), key.Name
	return c
}

func TestTakeDue(t *testing.T) {
	t.Parallel()
	f, ctx := shared(t, nil), t.Context()
	taken := func(d idem.Due) (values []idem.ID) {
		t.Helper()
		list, err := f.TakeDue(ctx, d)
		must(t, err)
		for _, r := range list {
			if r.State != idem.Running || r.Attempts != 2 || string(r.Input) != "in" || r.Left != time.Minute {
				t.Errorf("%+v", r)
			}
			values = append(values, r.ID)
		}
		return values
	}
	want := func(got []idem.ID, want ...idem.Claim) {
		t.Helper()
		same := len(got) == len(want)
		for i := range min(len(got), len(want)) {
			same = same && got[i] == want[i].ID
		}
		if !same {
			t.Errorf("got %d keys %v, want %d", len(got), got, len(want))
		}
	}
	hostile := []string{"a", "a b", "A", "{a}", "á", `a"`, "1 2 3", "%s"}
	var old []idem.Claim
	for i := range 20 { // those that have been due for longest come first, whatever their shard
		c := named("a", fmt.Sprint(i))
		parked(t, f, c, allOpen[1+i%2], 0)
		old = append(old, c)
	}
	parked(t, f, named("a", "later"), idem.Pending, time.Hour)
	begun(t, f, named("a", "running"))
	without := named("a", "no input")
	without.Input = nil
	parked(t, f, without, idem.Pending, 0)
	for _, name := range hostile[1:] {
		parked(t, f, named(name, "x"), idem.Pending, 0)
	}

	want(taken(due([]string{"none"}, 10, allOpen...)))
	want(taken(due(nil, 10, allOpen...)))
	want(taken(due([]string{"a"}, 10, idem.Running)))
	want(taken(due([]string{"a"}, 0, allOpen...)))
	want(taken(due([]string{"a"}, 1, allOpen...)), old[0])
	want(taken(due([]string{"a"}, 2, idem.Pending)), old[1], old[3])
	want(taken(due([]string{"a", "b"}, 5, allOpen...)), old[2], old[4], old[5], old[6], old[7])
	want(taken(due([]string{"a"}, 100, allOpen...)), old[8:]...)
	want(taken(due([]string{"a"}, 100, allOpen...)))
	for _, name := range hostile[1:] {
		want(taken(due([]string{name}, 100, allOpen...)), named(name, "x"))
	}
}

// More of others than one look into an index brings do not hide what is asked for.
func TestTakeDueBehindOthers(t *testing.T) {
	t.Parallel()
	f := shared(t, nil)
	shard := func(c idem.Claim) int { return int(c.ID[0]) % 64 }
	first, n := named("wanted", "0"), 0
	for i := 0; n < 250; i++ { // all in the shard of the one that is asked for
		if c := named("other", fmt.Sprint(i)); shard(c) == shard(first) {
			parked(t, f, c, idem.Pending, 0)
			n++
		}
	}
	parked(t, f, first, idem.Pending, 0)
	list, err := f.TakeDue(t.Context(), due([]string{"wanted"}, 10, allOpen...))
	if err != nil || len(list) != 1 || list[0].ID != first.ID {
		t.Errorf("%+v, %v", list, err)
	}
}

// A key that somebody has deleted does not keep others from being found.
func TestTakeDueOfAKeyThatWasDeleted(t *testing.T) {
	t.Parallel()
	f := shared(t, nil)
	gone, there := claim("gone", time.Minute), claim("there", time.Minute)
	parked(t, f, gone, idem.Pending, 0)
	must(t, f.client.Del(t.Context(), f.KeyOf(gone.ID)).Err())
	list, err := f.TakeDue(t.Context(), due([]string{"charge"}, 1, allOpen...))
	if err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	parked(t, f, there, idem.Pending, 0)
	list, err = f.TakeDue(t.Context(), due([]string{"charge"}, 1, allOpen...))
	if err != nil || len(list) != 1 || list[0].ID != there.ID {
		t.Errorf("%+v, %v", list, err)
	}
	if rest, err := f.client.Keys(t.Context(), f.prefix+"*due").Result(); err != nil || len(rest) != 1 {
		t.Errorf("%v, %v", rest, err)
	}
}

// Several completers take each key once, and all of them.
func TestTakeDueInARace(t *testing.T) {
	t.Parallel()
	f := shared(t, nil)
	const keys = 300
	for i := range keys {
		parked(t, f, claim(fmt.Sprint(i), time.Minute), idem.Pending, 0)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex // guards times
	times := map[idem.ID]int{}
	for n := range 8 {
		wg.Go(func() {
			for {
				list, err := f.TakeDue(t.Context(), due([]string{"charge"}, 1+n%3, allOpen...))
				if err != nil {
					t.Error(err)
				}
				if len(list) == 0 {
					return
				}
				mu.Lock()
				for _, r := range list {
					times[r.ID]++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for id, n := range times {
		if n != 1 {
			t.Errorf("%v was taken %d times", id, n)
		}
	}
	if len(times) != keys {
		t.Errorf("%d of %d keys were taken", len(times), keys)
	}
}
