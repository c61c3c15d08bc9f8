package counter

import (
	"errors"
	"fmt"

	holdfast "github.com/holdfast-go/holdfast"
)

// Errors of counters. See the types for what they carry.
var (
	// ErrInsufficient: there is less than was to be taken. See [InsufficientError].
	ErrInsufficient = errors.New("counter: insufficient")
	// ErrOverflow: the value would not fit. See [OverflowError].
	ErrOverflow = errors.New("counter: the value would overflow")
	// ErrNotFound: the caller's table has no row of this key. See [NotFoundError].
	ErrNotFound = errors.New("counter: no row of this key")
	// ErrMismatch: the operation ID was used for another change of this counter. See [MismatchError].
	ErrMismatch = errors.New("counter: the operation ID was used for another change")
	// ErrSuppressed: a trigger or a rule of the table kept a change from being made. The transaction must be rolled back.
	ErrSuppressed = errors.New("counter: the change was not made: a trigger or a rule of the table suppressed it")
	// ErrInvalid: an argument cannot be used. See [InputError].
	ErrInvalid = errors.New("counter: invalid argument")
	// ErrClosed: the counters are closed and take no more calls.
	ErrClosed error = &closedError{}
	// ErrOutcomeUnknown: nobody knows whether the counter was changed. See [UnknownError].
	ErrOutcomeUnknown = errors.New("counter: nobody knows whether the counter was changed")
)

// A refusal changed nothing.
type refusal struct{}

// Outcome returns NotApplied.
func (refusal) Outcome() holdfast.Outcome { return holdfast.NotApplied }

func (refusal) refused() {}

// isRefusal reports whether err is of the call itself, and would be the same in any transaction.
func isRefusal(err error) bool {
	var r interface{ refused() }
	return errors.As(err, &r)
}

// An InsufficientError is the refusal of a [Counters.Take], or of a negative amount for a counter in slots, that would leave
// less than 0. Nothing was taken. It matches [ErrInsufficient].
type InsufficientError struct {
	refusal
	Key string
	// Have is what there was, over all slots, and Want what was to be taken.
	Have, Want int64
}

func (e *InsufficientError) Error() string {
	return fmt.Sprintf("%v: %q has %d, not %d", ErrInsufficient, e.Key, e.Have, e.Want)
}

// Is matches ErrInsufficient.
func (e *InsufficientError) Is(target error) bool { return target == ErrInsufficient }

// An OverflowError is the refusal of an amount that the counter could not hold. Nothing was changed. It matches [ErrOverflow].
type OverflowError struct {
	refusal
	Key string
	// Have is the value, and Add the amount.
	Have, Add int64
}

func (e *OverflowError) Error() string {
	return fmt.Sprintf("%v: %q has %d, and %d was to be added", ErrOverflow, e.Key, e.Have, e.Add)
}

// Is matches ErrOverflow.
func (e *OverflowError) Is(target error) bool { return target == ErrOverflow }

// A NotFoundError says that the caller's table has no row of a key. Nothing was changed. It matches [ErrNotFound].
type NotFoundError struct {
	refusal
	Key string
}

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("%v: %q: insert it first", ErrNotFound, e.Key)
}

// Is matches ErrNotFound.
func (e *NotFoundError) Is(target error) bool { return target == ErrNotFound }

// A MismatchError is the refusal of an operation ID that was used for another amount. Nothing was changed. It matches
// [ErrMismatch].
type MismatchError struct {
	refusal
	Key string
	// Had is the amount that was applied, and Got the other one.
	Had, Got int64
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("%v: %q was changed by %d, not %d", ErrMismatch, e.Key, e.Had, e.Got)
}

// Is matches ErrMismatch.
func (e *MismatchError) Is(target error) bool { return target == ErrMismatch }

// An InputError says which argument cannot be used, and why. Nothing was changed. It matches [ErrInvalid].
type InputError struct {
	refusal
	Name, Reason string
	// Err is the error of the database, where that is how it was found out: on PostgreSQL the transaction is over then.
	Err error
}

func (e *InputError) Error() string {
	text := fmt.Sprintf("%v: the %s %s", ErrInvalid, e.Name, e.Reason)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns Err.
func (e *InputError) Unwrap() error { return e.Err }

// Is matches ErrInvalid.
func (e *InputError) Is(target error) bool { return target == ErrInvalid }

// An UnknownError says that the change may or may not have been made: the reply was lost, or the call ended while its batch
// was under way. Only a call with an operation ID may be repeated, see [Once]. It matches [ErrOutcomeUnknown].
type UnknownError struct {
	// Err is what happened.
	Err error
}

func (e *UnknownError) Error() string { return fmt.Sprintf("%v: %v", ErrOutcomeUnknown, e.Err) }

// Unwrap returns Err.
func (e *UnknownError) Unwrap() error { return e.Err }

// Is matches ErrOutcomeUnknown.
func (e *UnknownError) Is(target error) bool { return target == ErrOutcomeUnknown }

// Outcome returns Unknown.
func (e *UnknownError) Outcome() holdfast.Outcome { return holdfast.Unknown }

type closedError struct{ refusal }

func (*closedError) Error() string { return "counter: closed" }
