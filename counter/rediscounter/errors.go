package rediscounter

import (
	"errors"
	"fmt"

	holdfast "github.com/holdfast-go/holdfast"
)

// Errors of counters, which errors.Is finds in what the methods return.
var (
	// ErrInsufficient: there is less than was to be taken. See [InsufficientError].
	ErrInsufficient = errors.New("rediscounter: not enough is left")
	// ErrOverflow: the result is no int64.
	ErrOverflow = errors.New("the result would overflow 64 bits")
	// ErrNotInteger: the key holds a string that is no integer.
	ErrNotInteger = errors.New("the stored value is not an integer: delete it, or use another prefix")
	// ErrWrongType: the key holds something else than a string.
	ErrWrongType = errors.New("the key holds another type: delete it, or use another prefix")
	// ErrMismatch: the operation ID was used for another change of this counter.
	ErrMismatch = errors.New("the operation ID was used for another change: use a new one")
	// ErrInvalid: an argument or option cannot be used.
	ErrInvalid = errors.New("invalid")
)

// An InsufficientError is the refusal to take more than there is. Nothing was taken. It matches [ErrInsufficient].
type InsufficientError struct {
	// Have is what there is.
	Have int64
}

func (e *InsufficientError) Error() string {
	return fmt.Sprintf("%v: have %d", ErrInsufficient, e.Have)
}

// Is matches ErrInsufficient.
func (e *InsufficientError) Is(target error) bool { return target == ErrInsufficient }

// Outcome returns NotApplied.
func (e *InsufficientError) Outcome() holdfast.Outcome { return holdfast.NotApplied }

// An Error is any other failure of a counter. It wraps its cause.
type Error struct {
	// Op is "add", "take" or "get".
	Op      string
	err     error
	outcome holdfast.Outcome
}

func (e *Error) Error() string { return fmt.Sprintf("rediscounter: %s: %v", e.Op, e.err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.err }

// Outcome tells whether the change happened. Where it is Unknown, the same operation ID finds out.
func (e *Error) Outcome() holdfast.Outcome { return e.outcome }

func refuse(op string, err error) *Error {
	return &Error{Op: op, err: err, outcome: holdfast.NotApplied}
}
