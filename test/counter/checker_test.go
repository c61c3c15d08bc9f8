package counter_test

import (
	"testing"
	"time"
)

// The checker itself: each of these histories is wrong, or right, by the reading of the documentation.
func TestTheCheckerOfHistories(t *testing.T) {
	t.Parallel()
	call := func(v verb, n int64, saw sight, value int64, from, to time.Duration) *record {
		return &record{verb: v, n: n, saw: saw, value: value, exact: saw == done && v != resize, from: from, to: to}
	}
	once := func(r *record) *record { r.op = "op"; r.exact = r.saw == done; return r }
	first := call(add, 10, done, 10, 0, 1)
	for _, c := range []struct {
		name  string
		then  []*record
		right bool
	}{
		{"an addition", []*record{call(add, 1, done, 11, 2, 3), call(get, 0, done, 11, 4, 5)}, true},
		{"an addition that is lost", []*record{call(add, 1, done, 11, 2, 3), call(get, 0, done, 10, 4, 5)}, false},
		{"two of one value", []*record{call(add, 1, done, 11, 2, 9), call(add, 1, done, 11, 2, 9)}, false},
		{"two in either order", []*record{call(add, 1, done, 13, 2, 9), call(add, 2, done, 12, 2, 9)}, true},
		{"acknowledged before it is there", []*record{call(add, 1, done, 11, 2, 3), call(get, 0, done, 10, 4, 5), call(get, 0, done, 11, 6, 7)}, false},
		{"oversold", []*record{call(take, -6, done, 4, 2, 9), call(take, -6, done, 4, 2, 9)}, false},
		{"sold out", []*record{call(take, -6, done, 4, 2, 9), call(take, -6, insufficient, 4, 2, 9)}, true},
		{"sold out too early", []*record{call(take, -6, insufficient, 10, 2, 9)}, false},
		{"below 0", []*record{call(add, -11, done, -1, 2, 9)}, true},
		{"below 0 in slots", []*record{call(resize, 4, done, 0, 2, 3), call(add, -11, done, -1, 4, 9)}, false},
		{"lost in slots", []*record{call(resize, 4, done, 0, 2, 3), call(get, 0, done, 9, 4, 9)}, false},
		{"once", []*record{once(call(add, 1, done, 11, 2, 9)), once(call(add, 1, replayed, 0, 2, 9)), call(get, 0, done, 11, 10, 11)}, true},
		{"twice", []*record{once(call(add, 1, done, 11, 2, 9)), once(call(add, 1, done, 12, 2, 9))}, false},
		{"a repetition of nothing", []*record{once(call(add, 1, replayed, 0, 2, 9))}, false},
		{"a refusal that used up its ID", []*record{once(call(take, -11, insufficient, 10, 2, 3)), once(call(take, -11, replayed, 0, 4, 5))}, false},
		{"another amount", []*record{once(call(add, 1, done, 11, 2, 3)), once(call(add, 2, mismatch, 0, 4, 5))}, true},
		{"another amount that is done", []*record{once(call(add, 1, done, 11, 2, 3)), once(call(add, 2, replayed, 0, 4, 5))}, false},
		{"unknown, and it was", []*record{call(add, 1, unknown, 0, 2, 3), call(get, 0, done, 11, 4, 5)}, true},
		{"unknown, and it was not", []*record{call(add, 1, unknown, 0, 2, 3), call(get, 0, done, 10, 4, 5)}, true},
		{"unknown, and twice", []*record{call(add, 1, unknown, 0, 2, 3), call(get, 0, done, 12, 4, 5)}, false},
		{"refused, and it was", []*record{call(add, 1, nothing, 0, 2, 3), call(get, 0, done, 11, 4, 5)}, false},
	} {
		if wrong := check(append([]*record{first}, c.then...)); (wrong == "") != c.right {
			t.Errorf("%s: want right %v, got %q", c.name, c.right, wrong)
		}
	}
}
