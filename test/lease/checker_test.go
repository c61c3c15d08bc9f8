package lease_test

import (
	"testing"
	"time"
)

// The checker itself: each of these histories is wrong, or right, by the reading of the documentation.
func TestTheCheckerOfHistories(t *testing.T) {
	t.Parallel()
	at := func(from, to int, saw sight, token int64, value string) *record {
		return &record{saw: saw, token: token, value: value, from: time.Duration(from), to: time.Duration(to)}
	}
	for _, c := range []struct {
		name    string
		history []*record
		right   bool
	}{
		{"a holder writes", []*record{at(0, 1, acquired, 1, ""), at(2, 3, wrote, 1, "x"), at(4, 5, read, 0, "x")}, true},
		{"one after the other", []*record{at(0, 1, acquired, 1, ""), at(2, 3, wrote, 1, "x"), at(4, 5, acquired, 2, ""), at(6, 7, wrote, 2, "y")}, true},
		{"a holder of the past writes", []*record{at(0, 1, acquired, 1, ""), at(2, 3, acquired, 2, ""), at(4, 5, wrote, 1, "x")}, false},
		{"a holder of the past is fenced", []*record{at(0, 1, acquired, 1, ""), at(2, 3, acquired, 2, ""), at(4, 5, fenced, 1, "")}, true},
		{"a write while the lease is taken", []*record{at(0, 1, acquired, 1, ""), at(2, 9, wrote, 1, "x"), at(3, 5, acquired, 2, "")}, true},
		{"a holder is fenced", []*record{at(0, 1, acquired, 1, ""), at(2, 3, fenced, 1, "")}, false},
		{"a token comes twice", []*record{at(0, 1, acquired, 1, ""), at(2, 3, released, 1, ""), at(4, 5, acquired, 1, "")}, false},
		{"a token falls", []*record{at(0, 1, acquired, 2, ""), at(2, 3, released, 2, ""), at(4, 5, acquired, 1, "")}, false},
		{"a write after the release", []*record{at(0, 1, acquired, 1, ""), at(2, 3, released, 1, ""), at(4, 5, wrote, 1, "x")}, false},
		{"renewed after it was taken", []*record{at(0, 1, acquired, 1, ""), at(2, 3, acquired, 2, ""), at(4, 5, renewed, 1, "")}, false},
		{"lost while it is held", []*record{at(0, 1, acquired, 1, ""), at(2, 3, lost, 1, "")}, false},
		{"a value that nobody wrote", []*record{at(0, 1, acquired, 1, ""), at(2, 3, read, 0, "x")}, false},
		{"unknown, and it was", []*record{at(0, 1, acquired, 1, ""), at(2, 3, maybeWrote, 1, "x"), at(4, 5, read, 0, "x")}, true},
		{"unknown, and it was not", []*record{at(0, 1, acquired, 1, ""), at(2, 3, maybeWrote, 1, "x"), at(4, 5, read, 0, "")}, true},
		{"unknown, and then both", []*record{
			at(0, 1, acquired, 1, ""), at(2, 3, maybeWrote, 1, "x"), at(4, 5, acquired, 2, ""), at(6, 7, read, 0, ""), at(8, 9, read, 0, "x"),
		}, false},
		{"taken by nobody knows whom", []*record{at(0, 1, acquired, 1, ""), at(2, 3, maybeAcquired, 0, ""), at(4, 5, fenced, 1, "")}, true},
		{"a release that nobody knows of", []*record{at(0, 1, acquired, 1, ""), at(2, 3, maybeReleased, 1, ""), at(4, 5, wrote, 1, "x")}, true},
	} {
		if wrong := check(c.history); (wrong == "") != c.right {
			t.Errorf("%s: is said to be right: %v\n%s", c.name, wrong == "", wrong)
		}
	}
}
