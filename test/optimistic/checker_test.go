package optimistic_test

import (
	"testing"
	"time"
)

// The checker itself: each of these histories is wrong, or right, by the reading of the documentation.
func TestTheCheckerOfHistories(t *testing.T) {
	t.Parallel()
	call := func(v verb, expected, value int64, saw sight, version int64, from, to time.Duration) *record {
		return &record{verb: v, expected: expected, value: value, saw: saw, version: version, from: from, to: to}
	}
	again := func(r *record) *record { r.again = true; return r }
	first := call(insert, 0, 1, done, 0, 0, 1)
	for _, c := range []struct {
		name  string
		then  []*record
		right bool
	}{
		{"a write", []*record{call(set, 0, 2, done, 1, 2, 3), call(read, 0, 2, done, 1, 4, 5)}, true},
		{"a write that is lost", []*record{call(set, 0, 2, done, 1, 2, 3), call(read, 0, 1, done, 0, 4, 5)}, false},
		{"two writes of one version", []*record{call(set, 0, 2, done, 1, 2, 9), call(set, 0, 3, done, 1, 2, 9)}, false},
		{"two that increase", []*record{call(set, 0, 2, done, 1, 2, 9), call(set, 0, 3, done, 2, 2, 9)}, false},
		{"one of two", []*record{call(set, 0, 2, done, 1, 2, 9), call(set, 0, 3, conflict, 1, 2, 9)}, true},
		{"a conflict without a reason", []*record{call(set, 0, 2, conflict, 0, 2, 9)}, false},
		{"a conflict with a version that never was", []*record{call(set, 1, 2, conflict, 3, 2, 9)}, false},
		{"a row that is there is not found", []*record{call(set, 0, 2, absent, 0, 2, 9)}, false},
		{"overwritten", []*record{call(set, anyVersion, 2, done, 1, 2, 3), call(read, 0, 2, done, 1, 4, 5)}, true},
		{"a stale delete", []*record{call(set, 0, 2, done, 1, 2, 3), call(remove, 0, 0, done, 0, 4, 5)}, false},
		{"deleted", []*record{call(remove, 0, 0, done, 0, 2, 3), call(read, 0, 0, absent, 0, 4, 5)}, true},
		{"inserted twice", []*record{call(insert, 0, 2, done, 0, 2, 3)}, false},
		{"exists", []*record{call(insert, 0, 2, conflict, 0, 2, 3)}, true},
		{"unknown, and it was", []*record{call(set, 0, 2, unknown, 0, 2, 3), call(read, 0, 2, done, 1, 4, 5)}, true},
		{"unknown, and it was not", []*record{call(set, 0, 2, unknown, 0, 2, 3), call(read, 0, 1, done, 0, 4, 5)}, true},
		{"unknown, and twice", []*record{call(set, 0, 2, unknown, 0, 2, 3), call(read, 0, 2, done, 2, 4, 5)}, false},
		{"again, and it was", []*record{call(set, 0, 2, unknown, 0, 2, 3), again(call(set, 0, 2, done, 1, 4, 5)), call(read, 0, 2, done, 1, 6, 7)}, true},
		{"again, and it was not", []*record{again(call(set, 0, 2, done, 1, 4, 5)), call(read, 0, 2, done, 1, 6, 7)}, true},
		{"again, and twice", []*record{call(set, 0, 2, unknown, 0, 2, 3), again(call(set, 0, 2, done, 1, 4, 5)), call(read, 0, 2, done, 2, 6, 7)}, false},
		{"again, and neither", []*record{call(set, 5, 2, unknown, 0, 2, 3), again(call(set, 5, 2, done, 1, 4, 5))}, false},
		{"refused, and it was", []*record{call(set, 0, 2, nothing, 0, 2, 3), call(read, 0, 2, done, 1, 4, 5)}, false},
	} {
		if wrong := check(append([]*record{first}, c.then...)); (wrong == "") != c.right {
			t.Errorf("%s: want right %v, got %q", c.name, c.right, wrong)
		}
	}
}
