package retry

import (
	"context"
	"net"
	"time"

	"github.com/cenkalti/backoff/v4"

	holdfast "github.com/holdfast-go/holdfast"
)

// A Verdict is what an error of an attempt means. The zero value is that of an error that says nothing: nobody knows whether
// the operation had its effect, and another attempt may fare better.
type Verdict struct {
	// Outcome is what is known of the effect.
	Outcome holdfast.Outcome
	// Stop is why another attempt cannot help, such as [ErrPermanent], or nil.
	Stop error
	// After is how long the other side asks to wait. It is clamped to Options.MaxDelay.
	After time.Duration
}

// Classify is the default of [Options].Classify. It goes by what the chain of err says, from the outermost error on:
//
//   - a method Outcome() holdfast.Outcome, as the errors of transactions, counters and of [Do] itself have it. One that
//     proves that there was no effect, or that there was, is permanent unless a method Transient() bool says otherwise;
//     one of an unknown outcome may pass unless it does.
//   - a method SafeToRetry() bool that returns true, or a SQLSTATE of a serialization failure or deadlock: not applied.
//   - a dial that failed, or a name that was not found: not applied, since nothing was sent. Reading and writing prove
//     nothing: unknown, also where a dial that failed was joined to it, as by errors.Join.
//   - a context that was cancelled: permanent, since somebody wanted that, and unknown, unless it was in a dial. One whose time ran out: unknown.
//   - anything else: unknown, and may pass.
//
// [Permanent] and backoff.Permanent stop in any case. A method RetryAfter() time.Duration, or [After], is a hint. An error
// in which a function of several steps returns the proof of one step proves too much: see [Unsafe].
func Classify(err error) Verdict {
	if saysNothing(err) {
		return Verdict{}
	}
	var f facts
	f.read(err)
	v := Verdict{Outcome: f.outcome, After: f.after}
	transient := true
	switch {
	case f.stated:
		transient = f.transient || !f.passes && f.outcome == holdfast.Unknown && !f.canceled
	case f.unsent:
		v.Outcome = holdfast.NotApplied
		transient = !f.canceled
	case f.canceled:
		transient = false
	}
	if !transient || f.permanent {
		v.Stop = ErrPermanent
	}
	return v
}

// facts are what the chain of an error says. Of two that contradict each other the outer one counts, and of two side by side
// neither proves anything. One walk finds them all, where errors.As takes one for each, and an allocation.
type facts struct {
	outcome   holdfast.Outcome
	stated    bool // there is an outcome
	transient bool
	passes    bool // transient was said
	after     time.Duration
	hinted    bool // there is an after
	unsent    bool // or rolled back
	sent      bool // it was read from or written to a connection
	canceled  bool
	permanent bool
}

func (f *facts) read(err error) {
	for err != nil {
		switch x := err.(type) { //nolint:errorlint // this is the walk
		case stater, passer, hinter, sender, coder, matcher: // one look for all: most errors say nothing
			f.note(err)
		default:
			f.canceled = f.canceled || x == context.Canceled //nolint:errorlint // as above
		}
		switch x := err.(type) { //nolint:errorlint // as above
		case interface{ Unwrap() error }:
			f.noteType(err)
			err = x.Unwrap()
		case interface{ Unwrap() []error }:
			var all facts
			for _, e := range x.Unwrap() {
				var one facts
				one.read(e)
				all.beside(&one)
			}
			f.under(&all)
			return
		default:
			return
		}
	}
}

// beside adds what an error says that was joined to those of f. An operation of several steps is as unknown as the most unknown
// of them.
func (f *facts) beside(o *facts) {
	if f.stated && o.stated && f.outcome != o.outcome {
		f.outcome, f.transient, f.passes = holdfast.Unknown, f.transient && o.transient, f.passes && o.passes
	}
	f.under(o)
	f.sent = f.sent || o.sent
	f.unsent = (f.unsent || o.unsent) && !f.sent
}

// under adds what the errors within say, where f says nothing.
func (f *facts) under(o *facts) {
	if !f.stated {
		f.outcome, f.stated = o.outcome, o.stated
	}
	if !f.passes {
		f.transient, f.passes = o.transient, o.passes
	}
	if !f.hinted {
		f.after, f.hinted = o.after, o.hinted
	}
	f.unsent = f.unsent || o.unsent && !f.sent
	f.sent = f.sent || o.sent
	f.canceled, f.permanent = f.canceled || o.canceled, f.permanent || o.permanent
}

// What an error can say of itself.
type (
	stater  interface{ Outcome() holdfast.Outcome }
	passer  interface{ Transient() bool }
	hinter  interface{ RetryAfter() time.Duration }
	sender  interface{ SafeToRetry() bool }
	coder   interface{ SQLState() string }
	matcher interface{ Is(target error) bool }
)

// saysNothing tells the most common errors from those to be read: one that wraps none and has no method but its text.
func saysNothing(err error) bool {
	switch err.(type) { //nolint:errorlint // the walk is for the others
	case interface{ Unwrap() error }, interface{ Unwrap() []error }, stater, passer, hinter, sender, coder, matcher:
		return false
	}
	return err != context.Canceled //nolint:errorlint // it wraps none
}

func (f *facts) note(err error) {
	if x, ok := err.(stater); ok && !f.stated {
		f.outcome, f.stated = x.Outcome(), true
	}
	if x, ok := err.(passer); ok && !f.passes {
		f.transient, f.passes = x.Transient(), true
	}
	if x, ok := err.(hinter); ok && !f.hinted {
		f.after, f.hinted = x.RetryAfter(), true
	}
	if x, ok := err.(sender); ok && x.SafeToRetry() {
		f.unsent = true
	}
	const serializationFailure, deadlock = "40001", "40P01"
	if x, ok := err.(coder); ok {
		code := x.SQLState()
		f.unsent = f.unsent || code == serializationFailure || code == deadlock
	}
	if x, ok := err.(matcher); ok && x.Is(context.Canceled) {
		f.canceled = true
	}
}

// noteType takes what an error says by its type. All of these wrap another.
func (f *facts) noteType(err error) {
	switch x := err.(type) { //nolint:errorlint // as above
	case *backoff.PermanentError:
		f.permanent = true
	case *net.DNSError:
		f.unsent = f.unsent || !f.sent // also a name that was not found: names come and go with what they name
	case *net.OpError:
		f.sent = f.sent || !f.unsent && x.Op != "dial" // what failed within a dial sent nothing
		f.unsent = f.unsent || x.Op == "dial" && !f.sent
	}
}

// Permanent marks err as one that another attempt does not cure. It is backoff.Permanent: functions that are written for
// package backoff keep their meaning. Permanent(nil) is nil.
func Permanent(err error) error { return backoff.Permanent(err) }

// After marks err with how long the other side asks to wait. After(nil, d) is nil.
func After(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &afterError{err, d}
}

type afterError struct {
	error
	after time.Duration
}

func (e *afterError) Unwrap() error { return e.error }

// RetryAfter returns the hint.
func (e *afterError) RetryAfter() time.Duration { return e.after }
