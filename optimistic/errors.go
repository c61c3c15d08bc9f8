package optimistic

import (
	"errors"
	"fmt"
	"net/http"

	holdfast "github.com/holdfast-go/holdfast"
)

// Errors of guarded writes. The Tx forms return them as they are; the others may wrap them in a [tx.AbortError].
var (
	// ErrConflict: the row has another version than the one that was read. See [ConflictError].
	ErrConflict = errors.New("optimistic: the row was changed by somebody else")
	// ErrExists: the row was to be new and is there. It comes as a [ConflictError], so ErrConflict matches too.
	ErrExists = errors.New("optimistic: the row exists")
	// ErrNotFound: there is no row with the key.
	ErrNotFound error = &notApplied{"optimistic: there is no such row"}
	// ErrNoVersion: the version is unset. Nothing was written: without a version it would overwrite what others wrote.
	ErrNoVersion error = &notApplied{"optimistic: the version is unset: pass the one that was read, or Any() to overwrite"}
	// ErrUnmatched: the row has the version asked for, and the statement did not match it all the same: it has conditions of
	// its own, or the operation is the one that the row's token names.
	ErrUnmatched error = &notApplied{"optimistic: the statement did not match the row although its version is right: look at its other conditions"}
	// ErrApplied: the operation that the token names was applied before, together with the rest of its transaction, and this retry
	// was rolled back. Its outcome is Applied. [tx.DB.Do] returns it after a [Rows.SetAtCommit]; Update makes nil of it.
	ErrApplied error = applied{}
	// ErrContended: [Rows.Update] gave up. See [ContendedError].
	ErrContended = errors.New("optimistic: too many lost races")
	// ErrAttempts: the closure was run as often as Options.Attempts allows.
	ErrAttempts = errors.New("optimistic: no attempts left")
	// ErrInvalid: an argument cannot be used. The text says which, and why. Nothing was written.
	ErrInvalid error = &notApplied{"optimistic: invalid argument"}
	// ErrMalformed: a precondition or version of a request cannot be read.
	ErrMalformed error = &notApplied{"optimistic: malformed precondition"}
	// ErrRequired: the request has no precondition and needs one.
	ErrRequired error = &notApplied{"optimistic: the request needs If-Match with the ETag that was read, or If-None-Match: * to create"}
)

// notApplied is an error before which nothing was written.
type notApplied struct{ text string }

func (e *notApplied) Error() string { return e.text }

func (*notApplied) Outcome() holdfast.Outcome { return holdfast.NotApplied }

type applied struct{}

func (applied) Error() string { return "optimistic: the operation of this token was applied before" }

// Outcome returns Applied.
func (applied) Outcome() holdfast.Outcome { return holdfast.Applied }

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

// A ConflictError says that a row has another version than the one that was read, so that this write was not applied. It
// matches [ErrConflict], and [ErrExists] if the row was to be new.
type ConflictError struct {
	// Table is the table's name, Key the row's key.
	Table string
	Key   any
	// Expected is the version that the write was made for, unset if the row was to be new.
	Expected Version
	// Current is the version that the row had a moment after the write was refused.
	Current Version
}

func (e *ConflictError) Error() string {
	if !e.Expected.IsSet() {
		return fmt.Sprintf("%v: in %s, at version %v", ErrExists, e.Table, e.Current)
	}
	return fmt.Sprintf("%v: in %s, read at version %v, now at %v", ErrConflict, e.Table, e.Expected, e.Current)
}

// Is matches ErrConflict, and ErrExists if Expected is unset.
func (e *ConflictError) Is(target error) bool {
	return target == ErrConflict || target == ErrExists && !e.Expected.IsSet()
}

// Outcome returns NotApplied.
func (e *ConflictError) Outcome() holdfast.Outcome { return holdfast.NotApplied }

// A ContendedError says that [Rows.Update] lost every race. Nothing was applied. It matches [ErrContended], and what Stop
// and Last match.
type ContendedError struct {
	// Attempts is how often the closure was run.
	Attempts int
	// Stop is why it was not run again: ErrAttempts, or the cause of the context's end.
	Stop error
	// Last is the error of the last attempt.
	Last error
}

func (e *ContendedError) Error() string {
	return fmt.Sprintf("%v: %v, after %d attempts: %v", ErrContended, e.Stop, e.Attempts, e.Last)
}

// Is matches ErrContended.
func (e *ContendedError) Is(target error) bool { return target == ErrContended }

// Unwrap returns Stop and Last.
func (e *ContendedError) Unwrap() []error { return []error{e.Stop, e.Last} }

// Outcome returns NotApplied.
func (e *ContendedError) Outcome() holdfast.Outcome { return holdfast.NotApplied }

// A PreconditionError is the refusal of a request whose precondition does not hold: status 412. Nothing was written. Err,
// if it is not nil, is the conflict that it was found by.
type PreconditionError struct {
	// Current is the version of the row, unset if there is none.
	Current Version
	Err     error
}

func (e *PreconditionError) Error() string {
	if !e.Current.IsSet() {
		return "optimistic: the precondition fails: there is no such row"
	}
	return fmt.Sprintf("optimistic: the precondition fails: the row is at version %v", e.Current)
}

// Unwrap returns Err.
func (e *PreconditionError) Unwrap() error { return e.Err }

// Status returns 412.
func (e *PreconditionError) Status() int { return http.StatusPreconditionFailed }

// Outcome returns NotApplied.
func (e *PreconditionError) Outcome() holdfast.Outcome { return holdfast.NotApplied }
