package redisidem_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/idem/redisidem"
)

// Pages of every size have each key once, in the order of age, whatever is asked for.
func TestList(t *testing.T) {
	t.Parallel()
	address := shared(t, nil)
	f := &fixture{client: address.client, prefix: address.prefix + `*[a-z]?\^`}
	f.Store = redisidem.New(f.client, &redisidem.Options{Prefix: f.prefix})
	begun(t, address, claim("of another prefix", time.Minute))
	ctx := t.Context()
	type key struct {
		id          idem.ID
		scope, name string
		state       idem.State
	}
	var all []key
	for i := range 60 {
		k := idem.Key{Scope: fmt.Sprint("scope ", i%3), Name: fmt.Sprint("name ", i%2), Value: fmt.Sprint(i)}
		c := idem.Claim{ID: k.ID(), Scope: k.Scope, Name: k.Name, Nonce: rand.Int64(), Lease: time.Minute}
		if i%5 > 0 {
			c.Input = []byte("secret")
		}
		r := begun(t, f, c)
		yes(t)(f.Mark(ctx, termOf(r), []byte("steps")))
		state := []idem.State{idem.Running, idem.Unknown, idem.Pending, idem.Completed, idem.Failed, idem.Expired}[i%6]
		switch state {
		case idem.Unknown, idem.Pending:
			yes(t)(f.Park(ctx, termOf(r), idem.Parking{State: state, After: time.Hour, Note: "why"}))
		case idem.Completed, idem.Failed:
			yes(t)(f.Complete(ctx, termOf(r), idem.Answer{State: state, Body: []byte("secret")}, time.Hour))
		case idem.Expired:
			yes(t)(f.Complete(ctx, termOf(r), idem.Answer{State: idem.Completed, Body: []byte("secret")}, time.Microsecond))
		}
		all = append(all, key{c.ID, c.Scope, c.Name, state})
	}
	yes(t)(f.Release(ctx, termOf(begun(t, f, claim("free", time.Minute))))) // is in no list

	for _, filter := range []idem.Filter{
		{},
		{States: allOpen},
		{States: []idem.State{idem.Unknown}},
		{States: []idem.State{idem.Completed, idem.Running}},
		{States: []idem.State{idem.Expired}},
		{Scope: "scope 1"},
		{Scope: "scope 1", States: allOpen},
		{Name: "name 1"},
		{Name: "name 1", Scope: "scope 2", States: allOpen},
		{Name: "name 1", States: []idem.State{idem.Failed}},
		{Scope: "none"},
		{Name: "none", States: allOpen},
		{ID: all[7].id},
		{ID: all[7].id, Scope: "scope 2"},
		{ID: idem.ID{1}},
	} {
		var want []idem.ID
		for _, k := range all {
			if (filter.ID == idem.ID{} || filter.ID == k.id) && (filter.Scope == "" || filter.Scope == k.scope) &&
				(filter.Name == "" || filter.Name == k.name) && (len(filter.States) == 0 || slices.Contains(filter.States, k.state)) {
				want = append(want, k.id)
			}
		}
		for _, size := range []int{0, 1, 7, 5000} {
			var got []idem.ID
			for f2 := filter; ; {
				f2.Limit = size
				page, err := f.List(ctx, f2)
				must(t, err)
				for _, r := range page {
					got = append(got, r.ID)
					if r.Input != nil || r.Answer.Body != nil || r.State == idem.Unknown && (r.Note != "why" || string(r.Steps) != "steps") {
						t.Errorf("%+v", r)
					}
				}
				if len(page) == 0 || size == 0 || filter.ID != (idem.ID{}) {
					break
				}
				if size == 7 && len(page) > 7 {
					t.Errorf("a page has %d", len(page))
				}
				f2.After = page[len(page)-1]
			}
			if !slices.Equal(got, want) {
				t.Errorf("%+v in pages of %d: got %d, want %d", filter, size, len(got), len(want))
			}
		}
	}
}

func TestListOlderThan(t *testing.T) {
	t.Parallel()
	f := shared(t, nil)
	r := begun(t, f, claim("a", time.Minute))
	for _, states := range [][]idem.State{nil, allOpen} {
		list, err := f.List(t.Context(), idem.Filter{OlderThan: time.Hour, States: states})
		if err != nil || len(list) != 0 {
			t.Errorf("%+v, %v", list, err)
		}
		for len(list) == 0 { // until it is that old
			list, err = f.List(t.Context(), idem.Filter{OlderThan: 50 * time.Millisecond, States: states})
			must(t, err)
		}
		if list[0].ID != r.ID {
			t.Errorf("%+v", list)
		}
	}
}
