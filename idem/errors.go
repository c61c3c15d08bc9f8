package idem

import (
	"errors"
	"fmt"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
)

// Errors of keys and inboxes. Do wraps what a closure returns, and the errors of the transaction, in a [tx.AbortError]; DoTx
// returns them as they are, since the outcome is that of the caller's commit.
var (
	// ErrInFlight: the same operation is running right now. See [InFlightError].
	ErrInFlight = errors.New("idem: an operation with this key is running")
	// ErrMismatch: the key was used with another request. See [MismatchError].
	ErrMismatch = errors.New("idem: the key was used with a different request: use a new key for a new request")
	// ErrKeyExpired: the key was used, and its answer is no longer kept. Running it again could repeat its effect.
	ErrKeyExpired = errors.New("idem: the key has expired: use a new key for a new request")
	// ErrKeyInvalid: a part of the key cannot be used. See [KeyError].
	ErrKeyInvalid = errors.New("idem: invalid key")
	// ErrNotRetained: the operation was done, and its answer was too large to keep. It is not done again.
	ErrNotRetained error = &notRetainedError{}
	// ErrOutcomeUnknown: the reply to the commit was lost, and the key could not be looked up afterwards. Try again
	// with the same key: that is safe.
	ErrOutcomeUnknown = errors.New("idem: nobody knows whether the operation was done: retry with the same key")
	// ErrStoreUnavailable: the database could not be reached, and the closure did not run.
	ErrStoreUnavailable = errors.New("idem: the database is unavailable")
	// ErrResult: the result cannot be encoded or sealed, and nothing was done; or the stored one does not open or decode into
	// the type asked for, and the outcome that the error states is that of the operation.
	ErrResult = errors.New("idem: the result cannot be stored or read")
	// ErrCompleted: a key whose operation completed is not released. [Keys.Delete] forgets it, and it is done again.
	ErrCompleted = errors.New("idem: the operation completed: a key is released only if it failed")
	// ErrFailed matches every [*Failure].
	ErrFailed = errors.New("idem: the operation failed for good")
)

// An InFlightError is the refusal of a duplicate while the first is running. Nothing is known about the outcome of that
// one. It matches [ErrInFlight].
type InFlightError struct {
	// RetryAfter is a hint of when to ask again. It is 0 where that is of no use.
	RetryAfter time.Duration
	// Nested tells that the call was made inside the closure of the operation that is running: it would wait for itself.
	Nested bool
}

func (e *InFlightError) Error() string {
	if e.Nested {
		return fmt.Sprintf("%v: this call is inside it, and would wait for itself: give it a key of its own, such as another Name", ErrInFlight)
	}
	return fmt.Sprintf("%v: retry with the same key in %v", ErrInFlight, e.RetryAfter)
}

// Is matches ErrInFlight.
func (e *InFlightError) Is(target error) bool { return target == ErrInFlight }

// A MismatchError is the refusal of a key that was used with another request. Nothing was done. It matches [ErrMismatch].
type MismatchError struct {
	// Scope and Name are those of the key.
	Scope, Name string
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("%v (operation %q)", ErrMismatch, e.Name)
}

// Is matches ErrMismatch.
func (e *MismatchError) Is(target error) bool { return target == ErrMismatch }

// Outcome returns NotApplied.
func (e *MismatchError) Outcome() holdfast.Outcome { return holdfast.NotApplied }

// A KeyError says which part of a key cannot be used, and why. Nothing was done. It matches [ErrKeyInvalid].
type KeyError struct {
	Part   string
	Reason string
}

func (e *KeyError) Error() string { return fmt.Sprintf("%v: %s %s", ErrKeyInvalid, e.Part, e.Reason) }

// Is matches ErrKeyInvalid.
func (e *KeyError) Is(target error) bool { return target == ErrKeyInvalid }

// Outcome returns NotApplied.
func (e *KeyError) Outcome() holdfast.Outcome { return holdfast.NotApplied }

type notRetainedError struct{}

func (*notRetainedError) Error() string {
	return "idem: the operation was done, but its answer was too large to keep"
}

func (*notRetainedError) Outcome() holdfast.Outcome { return holdfast.Applied }
