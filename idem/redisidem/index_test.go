package redisidem_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/idem"
)

// An open key is in the index of its kind, once, at the time that it has itself, and a key that is not open is in none.
func TestTheIndexFollowsTheKey(t *testing.T) {
	t.Parallel()
	f, ctx := shared(t, nil), t.Context()
	for _, input := range [][]byte{nil, []byte("in")} {
		c := claim(fmt.Sprint("a", len(input)), time.Minute)
		c.Input = input
		tag, _, _ := strings.Cut(f.KeyOf(c.ID), "}:")
		kind := map[bool]string{true: "due", false: "open"}[input != nil]
		want := func(state idem.State) {
			t.Helper()
			at, others := []redis.Z{}, int64(0)
			for _, name := range []string{"due", "open"} {
				list, err := f.client.ZRangeWithScores(ctx, tag+"}:"+name, 0, -1).Result()
				must(t, err)
				if name == kind {
					at = list
				} else {
					others = int64(len(list))
				}
			}
			if state == 0 && len(at) == 0 && others == 0 {
				return
			}
			till, err := f.client.HGet(ctx, f.KeyOf(c.ID), "till").Result()
			must(t, err)
			if len(at) != 1 || others != 0 || strconv.FormatFloat(at[0].Score, 'f', 0, 64) != till ||
				!strings.HasPrefix(at[0].Member.(string), fmt.Sprint(int(state), " ")) || !strings.HasSuffix(at[0].Member.(string), " "+c.Name) {
				t.Errorf("%v until %s is at %v, and %d others", state, till, at, others)
			}
		}
		r := begun(t, f, c)
		want(idem.Running)
		renewals, err := f.Renew(ctx, []idem.Term{termOf(r)}, time.Hour)
		if err != nil || renewals[0] != idem.RenewalDone {
			t.Fatal(renewals, err)
		}
		want(idem.Running)
		for _, state := range []idem.State{idem.Unknown, idem.Pending} {
			yes(t)(f.Park(ctx, termOf(r), idem.Parking{State: state, After: 100 * 365 * 24 * time.Hour}))
			want(state)
			c.Nonce++
			next, ok, err := f.Take(ctx, idem.Taking{Claim: c, Was: r, Early: true})
			if err != nil || !ok {
				t.Fatal(ok, err)
			}
			r = next
			want(idem.Running)
		}
		yes(t)(f.Release(ctx, termOf(r)))
		want(0)
		c.Nonce++
		r = begun(t, f, c)
		want(idem.Running)
		yes(t)(f.Complete(ctx, termOf(r), idem.Answer{State: idem.Failed}, time.Microsecond))
		want(0)
		c.Nonce++
		for ok := false; !ok; { // until the answer is over
			_, ok, err = f.Take(ctx, idem.Taking{Claim: c, Was: r, Reuse: true})
			must(t, err)
		}
		want(idem.Running)
	}
}

// A list of open keys reads the whole index, however long it is.
func TestListOfALongIndex(t *testing.T) {
	t.Parallel()
	f, ctx := shared(t, nil), t.Context()
	c := claim("a", time.Minute)
	c.Input = nil
	begun(t, f, c)
	tag, _, _ := strings.Cut(f.KeyOf(c.ID), "}:")
	var gone []redis.Z // of keys that somebody has deleted
	for i := range 2500 {
		gone = append(gone, redis.Z{Score: 1, Member: fmt.Sprintf("1 %016d %064x charge", i, i)})
	}
	must(t, f.client.ZAdd(ctx, tag+"}:open", gone...).Err())
	list, err := f.List(ctx, idem.Filter{States: []idem.State{idem.Running}, Limit: 10})
	if err != nil || len(list) != 1 || list[0].ID != c.ID {
		t.Errorf("%+v, %v", list, err)
	}
}
