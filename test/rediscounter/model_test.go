package rediscounter_test

import (
	"fmt"
	"maps"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-go/holdfast/test/history"
)

// What a caller saw of its call.
type sight int

const (
	done         sight = iota // with value
	insufficient              // with value, what there is
	mismatch
	unknown // it may have been done
)

var sightNames = []string{"done", "insufficient", "mismatch", "unknown"}

// A record is one call of a history.
type record struct {
	id    string
	name  string
	verb  string // add, take or get
	n     int64
	op    string
	saw   sight
	value int64
	from  time.Duration
	to    time.Duration
}

// A result is what an operation did, and what it left.
type result struct {
	what  string
	value int64
}

type state struct {
	value int64
	made  map[string]result
}

// apply returns the state after r, and what is seen of it.
func (s state) apply(r *record) (next state, saw sight, value int64) {
	what := fmt.Sprint(r.verb, r.n)
	if first, ok := s.made[r.op]; ok && r.op != "" {
		if first.what != what {
			return s, mismatch, 0
		}
		return s, done, first.value
	}
	next = s
	switch {
	case r.verb == "get":
		return s, done, s.value
	case r.verb == "take" && s.value < r.n:
		return s, insufficient, s.value
	case r.verb == "take":
		next.value -= r.n
	default:
		next.value += r.n
	}
	if r.op != "" {
		next.made = maps.Clone(s.made)
		if next.made == nil {
			next.made = map[string]result{}
		}
		next.made[r.op] = result{what, next.value}
	}
	return next, done, next.value
}

var model = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{state{}} },
	Step: func(from, input, _ any) []any {
		s, r := from.(state), input.(*record)
		next, saw, value := s.apply(r)
		switch {
		case r.saw == unknown:
			return []any{s, next}
		case r.saw != saw || saw != mismatch && r.value != value:
			return nil
		}
		return []any{next}
	},
	Equal: func(a, b any) bool {
		s, o := a.(state), b.(state)
		return s.value == o.value && maps.Equal(s.made, o.made)
	},
}).ToModel()

// check returns what is wrong with the history of one, or nothing.
func check(calls []*record) string { return history.Check(model, calls) }

func (r *record) Span() (from, to time.Duration, open bool) { return r.from, r.to, r.saw == unknown }

func (r *record) String() string {
	return fmt.Sprintf("%-8s %-4s %3d %-6s %s %d", r.id, r.verb, r.n, r.op, sightNames[r.saw], r.value)
}
