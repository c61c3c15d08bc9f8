package idem_test

import (
	"testing"
	"time"
)

// The checker itself: each of these histories is wrong, or right, by the reading of the documentation.
func TestTheCheckerOfHistories(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	call := func(saw sight, value string, from, to time.Duration) *record {
		return &record{id: value, saw: saw, value: value, fp: "a", fails: saw == freshFailure, from: from, to: to}
	}
	other := func(r *record) *record { r.fp = "b"; return r }
	reuse := func(r *record) *record { r.reuse = true; return r }
	forever, short := life{}, life{ttl: 20 * ms, tombstone: 20 * ms}
	for _, c := range []struct {
		name    string
		life    life
		history []*record
		right   bool
	}{
		{"one, then its answer", forever, []*record{call(fresh, "1", 0, 9), call(replayed, "1", 10, 19)}, true},
		{"the answer while the first is running", forever, []*record{call(fresh, "1", 0, 9), call(replayed, "1", 5, 19)}, true},
		{"the answer before the first has begun", forever, []*record{call(fresh, "1", 10, 19), call(replayed, "1", 0, 9)}, false},
		{"two that do the work", forever, []*record{call(fresh, "1", 0, 9), call(fresh, "2", 5, 19)}, false},
		{"an answer that nobody gave", forever, []*record{call(fresh, "1", 0, 9), call(replayed, "2", 10, 19)}, false},
		{"an answer without a first", forever, []*record{call(replayed, "1", 0, 9)}, false},
		{"a closure that runs after the answer", forever, []*record{call(fresh, "1", 0, 9), call(released, "2", 10, 19)}, false},
		{"a closure that runs before the answer", forever, []*record{call(released, "2", 0, 9), call(fresh, "1", 5, 19)}, true},
		{"a refusal after the answer", forever, []*record{call(fresh, "1", 0, 9), call(refused, "", 10, 19)}, false},
		{"a failure, then it", forever, []*record{call(freshFailure, "1", 0, 9), call(replayedFailed, "1", 10, 19)}, true},
		{"a failure, then a value", forever, []*record{call(freshFailure, "1", 0, 9), call(replayed, "1", 10, 19)}, false},
		{"another request gets the answer", forever, []*record{call(fresh, "1", 0, 9), other(call(replayed, "1", 10, 19))}, false},
		{"another request is told", forever, []*record{call(fresh, "1", 0, 9), other(call(mismatched, "", 10, 19))}, true},
		{"the same request is told so", forever, []*record{call(fresh, "1", 0, 9), call(mismatched, "", 10, 19)}, false},
		{"unknown, and it was", forever, []*record{call(unknown, "1", 0, 9), call(replayed, "1", 10, 19)}, true},
		{"unknown, and it was not", forever, []*record{call(unknown, "1", 0, 9), call(fresh, "2", 10, 19)}, true},
		{"unknown, and then both", forever, []*record{call(unknown, "1", 0, 9), call(replayed, "1", 10, 19), call(fresh, "2", 20, 29)}, false},
		{"expired too early", short, []*record{call(fresh, "1", 0, ms), call(expired, "", 2*ms, 9*ms)}, false},
		{"expired", short, []*record{call(fresh, "1", 0, ms), call(expired, "", 2*ms, 29*ms)}, true},
		{"an answer too late", short, []*record{call(fresh, "1", 0, ms), call(replayed, "1", 29*ms, 30*ms)}, false},
		{"used anew too early", short, []*record{call(fresh, "1", 0, ms), reuse(call(fresh, "2", 2*ms, 9*ms))}, false},
		{"used anew", short, []*record{call(fresh, "1", 0, ms), reuse(call(fresh, "2", 2*ms, 29*ms))}, true},
		{"used anew without leave", short, []*record{call(fresh, "1", 0, ms), call(fresh, "2", 2*ms, 29*ms)}, false},
		{"swept and new", short, []*record{call(fresh, "1", 0, ms), call(fresh, "2", 2*ms, 49*ms)}, true},
	} {
		if wrong := c.life.check(c.history); (wrong == "") != c.right {
			t.Errorf("%s: want right %v, got %q", c.name, c.right, wrong)
		}
	}
}
