package retry

import (
	"context"
	"errors"
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
//     nothing: unknown.
//   - a context that was cancelled: unknown, and permanent, since somebody wanted that. One whose time ran out: unknown.
//   - anything else: unknown, and may pass.
//
// [Permanent] and backoff.Permanent stop in any case. A method RetryAfter() time.Duration, or [After], is a hint. An error
// in which a function of several steps returns the proof of one step proves too much: see [Unsafe].
func Classify(err error) Verdict {
	v := stated(err)
	var hint interface{ RetryAfter() time.Duration }
	if errors.As(err, &hint) {
		v.After = hint.RetryAfter()
	}
	var permanent *backoff.PermanentError
	if errors.As(err, &permanent) {
		v.Stop = ErrPermanent
	}
	return v
}

func stated(err error) Verdict {
	var outcome interface{ Outcome() holdfast.Outcome }
	var passes interface{ Transient() bool }
	if errors.As(err, &outcome) {
		v := Verdict{Outcome: outcome.Outcome()}
		transient := v.Outcome == holdfast.Unknown
		if errors.As(err, &passes) {
			transient = passes.Transient()
		}
		if !transient {
			v.Stop = ErrPermanent
		}
		return v
	}
	switch {
	case rolledBack(err):
		return Verdict{Outcome: holdfast.NotApplied}
	case errors.Is(err, context.Canceled):
		return Verdict{Stop: ErrPermanent}
	}
	return network(err)
}

// rolledBack tells the errors of drivers that prove that a transaction has no effect.
func rolledBack(err error) bool {
	var safe interface{ SafeToRetry() bool }
	if errors.As(err, &safe) && safe.SafeToRetry() {
		return true
	}
	var state interface{ SQLState() string }
	if !errors.As(err, &state) {
		return false
	}
	const serializationFailure, deadlock = "40001", "40P01"
	code := state.SQLState()
	return code == serializationFailure || code == deadlock
}

// network tells the errors of connections that could not be made.
func network(err error) Verdict {
	var lookup *net.DNSError
	if errors.As(err, &lookup) {
		return Verdict{Outcome: holdfast.NotApplied} // also a name that was not found: names come and go with what they name
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return Verdict{Outcome: holdfast.NotApplied}
	}
	return Verdict{}
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
