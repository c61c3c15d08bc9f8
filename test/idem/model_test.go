package idem_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// What a caller saw of its call.
type sight int

const (
	nothing        sight = iota // an error that says no more than that the call changed nothing
	fresh                       // its closure's value
	freshFailure                // its closure's failure, to be kept
	replayed                    // the value of another call
	replayedFailed              // the failure of another call
	released                    // its closure ran, and nothing of it is to be kept
	refused                     // another call is running
	mismatched
	expired
	unknown // its closure's value or failure may have been kept
)

var sightNames = []string{
	"nothing", "fresh", "fresh failure", "replayed", "replayed failure", "released", "refused", "mismatched", "expired", "unknown",
}

// A record is one call of a history.
type record struct {
	id, key, what string
	fp            string
	saw           sight
	value         string // what came of it, or may have come of it; empty if the caller is not told which
	fails         bool   // value is a failure
	coalesced     bool   // it may have taken part in a call of the same process that had begun before
	reuse         bool   // it may take an expired key
	from, to      time.Duration
}

// slack is what clocks of milliseconds lose.
const slack = 3 * time.Millisecond

// A register is the state of one key: absent if value is empty.
type register struct {
	value, fp string
	failed    bool
	from, to  time.Duration // when the answer was stored: between the two
}

// A life is the sequential model of a key. ttl 0 means that nothing expires.
type life struct{ ttl, tombstone time.Duration }

// over reports whether the answer can have expired before r ended.
func (l life) over(s register, r *record) bool {
	return s.value != "" && l.ttl > 0 && r.to >= s.from+l.ttl-slack
}

// free reports whether the key can have been free for r.
func (l life) free(s register, r *record) bool {
	if s.value == "" || r.reuse && l.over(s, r) {
		return true
	}
	return l.ttl > 0 && r.to >= s.from+l.ttl+l.tombstone-slack // and has been swept
}

// kept reports whether the answer can have stood when r began. A call that took part in an earlier one may have an answer
// that was read for that one.
func (l life) kept(s register, r *record) bool {
	return l.ttl == 0 || r.coalesced || r.from <= s.to+l.ttl+slack
}

// step returns the states that a key can be in after r.
func (l life) step(s register, r *record) []register {
	stay := []register{s}
	next := register{value: r.value, fp: r.fp, failed: r.fails, from: r.from, to: r.to}
	ok := true
	switch r.saw {
	case fresh, freshFailure:
		stay, ok = []register{next}, l.free(s, r)
	case unknown:
		if l.free(s, r) {
			stay = append(stay, next)
		}
	case replayed, replayedFailed:
		ok = s.value != "" && s.failed == (r.saw == replayedFailed) && (r.fp == "" || s.fp == r.fp) && l.kept(s, r) &&
			(r.value == "" || r.value == s.value)
	case released:
		ok = l.free(s, r)
	case refused:
		ok = l.free(s, r) || r.coalesced
	case mismatched:
		ok = s.value != "" && s.fp != r.fp || r.coalesced
	case expired:
		ok = l.over(s, r)
	}
	if !ok {
		return nil
	}
	return stay
}

func (l life) model() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{register{}} },
		Step: func(state, input, _ any) (next []any) {
			for _, s := range l.step(state.(register), input.(*record)) {
				next = append(next, s)
			}
			return next
		},
	}
	return m.ToModel()
}

// check returns what is wrong with the history of one key, or nothing: the calls, and those of them that can be brought in
// an order.
func (l life) check(history []*record) string {
	var ops []porcupine.Operation
	for i, r := range history {
		op := porcupine.Operation{ClientId: i, Input: r, Call: int64(r.from), Return: int64(r.to)}
		if r.saw == unknown {
			op.Return = int64(time.Hour) // the server may come to it later
		}
		ops = append(ops, op)
	}
	result, info := porcupine.CheckOperationsVerbose(l.model(), ops, time.Minute)
	if result == porcupine.Ok {
		return ""
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s: no order of these calls is one of a register:\n", result)
	slices.SortFunc(history, func(a, b *record) int { return int(a.from - b.from) })
	for _, r := range history {
		fmt.Fprintf(&text, "  %v\n", r)
	}
	var longest []porcupine.Operation
	for _, partition := range info.PartialLinearizationsOperations() {
		for _, part := range partition {
			if len(part) > len(longest) {
				longest = part
			}
		}
	}
	text.WriteString("the longest order that is:")
	for _, op := range longest {
		fmt.Fprintf(&text, " %s", op.Input.(*record).id)
	}
	return text.String()
}

func (r *record) String() string {
	return fmt.Sprintf("%-8s %-44s fp %s %8.2f..%8.2f ms  %s %q", r.id, r.what, r.fp,
		r.from.Seconds()*1000, r.to.Seconds()*1000, sightNames[r.saw], r.value)
}
