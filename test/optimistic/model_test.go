package optimistic_test

import (
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-go/holdfast/test/history"
)

// What a caller asked for.
type verb int

const (
	read verb = iota
	set       // also an item of a batch
	remove
	insert
	update // read and set in one transaction
)

var verbNames = []string{"read", "set", "delete", "insert", "update"}

// What a caller saw of its call.
type sight int

const (
	nothing  sight = iota // an error that says no more than that the call changed nothing
	done                  // with version
	conflict              // with version, the current one
	absent
	unknown // it may have been done
)

var sightNames = []string{"nothing", "done", "conflict", "absent", "unknown"}

// anyVersion is that of a call which overwrites.
const anyVersion = -1

// A record is one call of a history.
type record struct {
	id, row  string
	verb     verb
	expected int64 // the version that it is for
	was      int64 // the value that it was decided on, for update
	value    int64 // that it writes, or read
	saw      sight
	version  int64
	again    bool // with the token of a call whose outcome is unknown
	from, to time.Duration
}

// A row is the state of one row.
type row struct {
	there          bool
	version, value int64
	deleted        bool // at least once: versions have begun again, and what was read may be of a former row
}

// apply returns the row after r has been done, and whether r can be done now.
func (s row) apply(r *record) (next row, version int64, ok bool) {
	matches := s.there && (r.expected == anyVersion || r.expected == s.version)
	written := row{there: true, version: s.version + 1, value: r.value, deleted: s.deleted}
	switch r.verb {
	case read:
		return s, s.version, s.there && s.value == r.value
	case set:
		return written, s.version + 1, matches
	case update:
		return written, s.version + 1, matches && (s.value == r.was || s.deleted)
	case remove:
		return row{deleted: true}, s.version, matches
	default:
		return row{there: true, value: r.value, deleted: s.deleted}, 0, !s.there
	}
}

// step returns the states that a row can be in after r. A refused write has its place where the row is looked at.
func (s row) step(r *record) []row {
	next, version, can := s.apply(r)
	ok := true
	switch r.saw {
	case done:
		if r.again && s.there && s.value == r.value && s.version == r.version {
			break // it was the first of the two, and nobody has written since
		}
		s, ok = next, can && version == r.version
	case conflict:
		ok = s.there && s.version == r.version && !(can && r.verb != insert)
	case absent:
		ok = !s.there
	case unknown:
		if can {
			return []row{s, next}
		}
	}
	if !ok {
		return nil
	}
	return []row{s}
}

var model = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{row{}} },
	Step: func(state, input, _ any) (next []any) {
		for _, s := range state.(row).step(input.(*record)) {
			next = append(next, s)
		}
		return next
	},
}).ToModel()

// check returns what is wrong with the history of one, or nothing.
func check(calls []*record) string { return history.Check(model, calls) }

func (r *record) Span() (from, to time.Duration, open bool) { return r.from, r.to, r.saw == unknown }

func (r *record) String() string {
	return fmt.Sprintf("%-8s %-6s for %3d (%6d) writes %6d %s %d", r.id, verbNames[r.verb], r.expected, r.was,
		r.value, sightNames[r.saw], r.version)
}
