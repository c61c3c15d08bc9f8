package rediscounter_test

import (
	"testing"
	"time"
)

// The checker itself: each of these histories is wrong, or right, by the reading of the documentation.
func TestTheCheckerOfHistories(t *testing.T) {
	t.Parallel()
	call := func(verb string, n int64, op string, saw sight, value int64, from, to time.Duration) *record {
		return &record{verb: verb, n: n, op: op, saw: saw, value: value, from: from, to: to}
	}
	first := call("add", 10, "", done, 10, 0, 1)
	for _, c := range []struct {
		name  string
		then  []*record
		right bool
	}{
		{"a take", []*record{call("take", 3, "", done, 7, 2, 3), call("get", 0, "", done, 7, 4, 5)}, true},
		{"a take that counts twice", []*record{call("take", 3, "", done, 7, 2, 3), call("get", 0, "", done, 4, 4, 5)}, false},
		{"oversold", []*record{call("take", 6, "", done, 4, 2, 9), call("take", 6, "", done, 4, 2, 9)}, false},
		{"the first result again", []*record{call("take", 6, "a", done, 4, 2, 3), call("add", 1, "", done, 5, 4, 5), call("take", 6, "a", done, 4, 6, 7)}, true},
		{"another result", []*record{call("take", 6, "a", done, 4, 2, 3), call("add", 1, "", done, 5, 4, 5), call("take", 6, "a", done, 5, 6, 7)}, false},
		{"another change", []*record{call("take", 6, "a", done, 4, 2, 3), call("take", 5, "a", mismatch, 0, 4, 5)}, true},
		{"sold out too early", []*record{call("take", 6, "", insufficient, 10, 2, 9)}, false},
		{"unknown, and it was", []*record{call("take", 6, "", unknown, 0, 2, 3), call("get", 0, "", done, 4, 4, 5)}, true},
		{"unknown, and twice", []*record{call("add", 6, "", unknown, 0, 2, 3), call("get", 0, "", done, 22, 4, 5)}, false},
	} {
		if wrong := check(append([]*record{first}, c.then...)); (wrong == "") != c.right {
			t.Errorf("%s: want right %v, got %q", c.name, c.right, wrong)
		}
	}
}
