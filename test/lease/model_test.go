package lease_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// A sight is what a contender saw of what it did.
type sight int

const (
	acquired       sight = iota // the lease is its own, with a token
	maybeAcquired               // the reply was lost
	wrote                       // under its token
	fenced                      // its write was refused
	maybeWrote                  // nobody knows
	renewed                     // the store says that it still has the lease
	released                    // it had the lease until now
	lost                        // a renewal or a release says that it had lost the lease before
	maybeReleased               // nobody knows
	read                        // a value
	unaccomplished              // nothing was done
)

var sightNames = []string{"acquired", "maybe acquired", "wrote", "fenced", "maybe wrote", "renewed", "released", "lost", "maybe released", "read", "nothing"}

// A record is one call of a history.
type record struct {
	who      int
	saw      sight
	token    int64
	value    string
	from, to time.Duration
}

func (r *record) String() string {
	return fmt.Sprintf("%8.2f..%8.2f ms  %d %s %d %s", r.from.Seconds()*1000, r.to.Seconds()*1000, r.who, sightNames[r.saw], r.token, r.value)
}

// A register is a value that one lease guards. token is that of the last holder that is known of.
type register struct {
	token int64
	over  bool // that holder has the lease no more: it was released, or taken by somebody who does not know
	value string
}

// held reports whether token is that of the holder.
func (s register) held(token int64) bool { return s.token == token && !s.over }

// step returns the states that the register can be in after r, in the sequential model of it: tokens rise, and what is
// written is written by the last who acquired.
func (s register) step(r *record) []register {
	over, with := s, s
	over.over, with.value = true, r.value
	next := register{token: r.token, value: s.value}
	ok, to := true, []register{s}
	switch r.saw {
	case acquired:
		ok, to = r.token > s.token, []register{next}
	case maybeAcquired:
		to = append(to, over)
	case wrote:
		ok, to = s.held(r.token), []register{with}
	case maybeWrote:
		if s.held(r.token) {
			to = append(to, with)
		}
	case renewed:
		ok = s.held(r.token)
	case released:
		ok, to = s.held(r.token), []register{over}
	case maybeReleased:
		if s.held(r.token) {
			to = append(to, over)
		}
	case fenced, lost:
		ok = !s.held(r.token)
	case read:
		ok = r.value == s.value
	}
	if !ok {
		return nil
	}
	return to
}

func model() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{register{}} },
		Step: func(state, input, _ any) (next []any) {
			for _, s := range state.(register).step(input.(*record)) {
				next = append(next, s)
			}
			return next
		},
	}
	return m.ToModel()
}

// check returns what is wrong with the history of one lease, or nothing.
func check(history []*record) string {
	var ops []porcupine.Operation
	for i, r := range history {
		op := porcupine.Operation{ClientId: i, Input: r, Call: int64(r.from), Return: int64(r.to)}
		if r.saw == maybeAcquired || r.saw == maybeWrote || r.saw == maybeReleased {
			op.Return = int64(time.Hour) // the server may come to it later
		}
		ops = append(ops, op)
	}
	result, _ := porcupine.CheckOperationsVerbose(model(), ops, time.Minute)
	if result == porcupine.Ok {
		return ""
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s: no order of these calls is one of a fenced register:\n", result)
	slices.SortFunc(history, func(a, b *record) int { return int(a.from - b.from) })
	for _, r := range history {
		fmt.Fprintf(&text, "  %v\n", r)
	}
	return text.String()
}
