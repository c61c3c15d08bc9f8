package counter_test

import (
	"fmt"
	"maps"
	"math"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-go/holdfast/test/history"
)

// What a caller asked for.
type verb int

const (
	get verb = iota
	add
	take
	resize
)

var verbNames = []string{"get", "add", "take", "resize"}

// What a caller saw of its call.
type sight int

const (
	nothing      sight = iota // an error that says no more than that the call changed nothing
	done                      // with value, if exact
	replayed                  // the operation had been done before
	insufficient              // with value, what there is
	overflow
	mismatch
	unknown // it may have been done
)

var sightNames = []string{"nothing", "done", "replayed", "insufficient", "overflow", "mismatch", "unknown"}

// A record is one call of a history.
type record struct {
	id    string
	key   string
	verb  verb
	n     int64  // added, or the number of slots
	op    string // none if empty
	again bool   // the call was repeated inside, so that it may find its own operation
	saw   sight
	value int64
	exact bool
	from  time.Duration
	to    time.Duration
}

// state is that of one counter: its value, whether it is in slots, and the operations that were done.
type state struct {
	value int64
	slots int64
	done  map[string]int64
}

func (s state) equal(o state) bool {
	return s.value == o.value && s.slots == o.slots && maps.Equal(s.done, o.done)
}

// refusal returns what a change is refused with, or done.
func (s state) refusal(r *record) sight {
	floor := r.verb == take || s.slots > 1
	switch {
	case r.n > 0 && s.value > math.MaxInt64-r.n:
		return overflow
	case r.n < 0 && s.value < math.MinInt64-r.n && !floor:
		return overflow
	case floor && (r.n < 0 && s.value < math.MinInt64-r.n || s.value+r.n < 0):
		return insufficient
	}
	return done
}

// apply returns the state after r, and what is seen of it.
func (s state) apply(r *record) (next state, saw sight) {
	switch r.verb {
	case get:
		return s, done
	case resize:
		if s.value < 0 && r.n > 1 {
			return s, insufficient
		}
		s.slots = r.n
		return s, done
	}
	had, ok := s.done[r.op]
	switch {
	case r.op != "" && ok && had != r.n:
		return s, mismatch
	case r.op != "" && ok:
		return s, replayed
	}
	if saw := s.refusal(r); saw != done {
		return s, saw
	}
	next = state{value: s.value + r.n, slots: s.slots, done: s.done}
	if r.op != "" {
		next.done = maps.Clone(s.done)
		if next.done == nil {
			next.done = map[string]int64{}
		}
		next.done[r.op] = r.n
	}
	return next, done
}

// step returns the states that a counter can be in after r.
func (s state) step(r *record) []state {
	next, can := s.apply(r)
	switch r.saw {
	case nothing:
		return []state{s}
	case unknown:
		return []state{s, next}
	case done:
		if can == replayed && r.again {
			return []state{s}
		}
		if can != done || r.verb == get && s.value != r.value || r.exact && next.value != r.value {
			return nil
		}
		return []state{next}
	case insufficient:
		if can != insufficient || s.value != r.value {
			return nil
		}
	default:
		if can != r.saw {
			return nil
		}
	}
	return []state{s}
}

var model = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{state{slots: 1}} },
	Step: func(from, input, _ any) (next []any) {
		for _, s := range from.(state).step(input.(*record)) {
			next = append(next, s)
		}
		return next
	},
	Equal: func(a, b any) bool { return a.(state).equal(b.(state)) },
}).ToModel()

// check returns what is wrong with the history of one, or nothing.
func check(calls []*record) string { return history.Check(model, calls) }

func (r *record) Span() (from, to time.Duration, open bool) { return r.from, r.to, r.saw == unknown }

func (r *record) String() string {
	return fmt.Sprintf("%-8s %-6s %20d %-6s %s %d %v", r.id, verbNames[r.verb], r.n, r.op, sightNames[r.saw], r.value, r.exact)
}
