package retry

import (
	"context"
	"errors"
	"fmt"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
)

// Why an operation was not run again: what [Error].Stop is, unless it is the cause of the context's end.
var (
	// ErrAttempts: it was run as often as Options.Attempts allows.
	ErrAttempts = errors.New("retry: no attempts left")
	// ErrElapsed: the next attempt would begin later than Options.Elapsed allows.
	ErrElapsed = errors.New("retry: the time for attempts is used up")
	// ErrDeadline: the next attempt would begin after the deadline of the context. It matches context.DeadlineExceeded.
	ErrDeadline = fmt.Errorf("retry: the next attempt would come too late: %w", context.DeadlineExceeded)
	// ErrBudget: Options.Budget is used up. Too many calls failed.
	ErrBudget = errors.New("retry: the budget is used up")
	// ErrOpen: Options.Breaker is open. Too many attempts failed.
	ErrOpen = errors.New("retry: the circuit breaker is open")
	// ErrBackOff: the schedule of Options.BackOff ended.
	ErrBackOff = errors.New("retry: the schedule of delays ended")
	// ErrPermanent: the error says that another attempt does not help.
	ErrPermanent = errors.New("retry: another attempt does not help")
	// ErrOnce: nothing says that the operation may be run again. See [Operation].
	ErrOnce = errors.New("retry: not run again: say why it may be, by Read, Idempotent or Keyed")
	// ErrUnsafe: the effect of an [Unsafe] operation is not proved to be absent.
	ErrUnsafe = errors.New("retry: not run again: it may have had its effect: give it a key")
	// ErrNested: the call is part of an attempt of another one, which tries again. See Options.Nested.
	ErrNested = errors.New("retry: not run again within the attempt of another call")
	// ErrNoKey: the key of [Keyed] is empty. Nothing was run.
	ErrNoKey = errors.New("retry: the key is empty: make one for each operation and keep it with it")
)

// ErrAttemptTimeout is the cause of the end of an attempt's context after Options.AttemptTimeout. It matches
// context.DeadlineExceeded.
var ErrAttemptTimeout = fmt.Errorf("retry: the attempt took longer than Options.AttemptTimeout: %w", context.DeadlineExceeded)

// An Error says that an operation did not succeed, and why it was not run again. Unknown is not failed: ask
// holdfast.OutcomeOf before telling anybody that nothing happened.
type Error struct {
	// Attempts is how often it was run. 0 means that it was refused before.
	Attempts int
	// Stop is why it was not run again.
	Stop error
	// Err is the error of the last attempt, or nil if there was none.
	Err error
	// After is how long the other side asked to wait, not clamped. 0 means that it did not ask.
	After time.Duration

	outcome   holdfast.Outcome
	transient bool
}

func (e *Error) Error() string {
	if e.Err == nil {
		return e.Stop.Error()
	}
	times := "1 attempt"
	if e.Attempts != 1 {
		times = fmt.Sprintf("%d attempts", e.Attempts)
	}
	return fmt.Sprintf("%v, after %s, %v: %v", e.Stop, times, e.outcome, e.Err)
}

// Unwrap returns Stop and Err.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Stop}
	}
	return []error{e.Stop, e.Err}
}

// Outcome is what is known of the effect, over all attempts: it is Unknown if that of any was, whatever the last one proves.
func (e *Error) Outcome() holdfast.Outcome { return e.outcome }

// Transient reports whether a later call may succeed and none was made yet on behalf of this error: the operation was not
// run again only because it, or a call around it, did not want that.
func (e *Error) Transient() bool { return e.transient }

// RetryAfter returns After.
func (e *Error) RetryAfter() time.Duration { return e.After }
