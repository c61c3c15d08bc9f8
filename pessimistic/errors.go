package pessimistic

import (
	"errors"
	"fmt"
	"strings"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tx"
)

// Errors of locks.
var (
	// ErrMissing: a row that was to be locked does not exist. See [MissingError].
	ErrMissing = errors.New("pessimistic: a row to lock does not exist")
	// ErrNotAvailable: somebody else holds a lock. See [NotAvailableError].
	ErrNotAvailable = errors.New("pessimistic: somebody else holds a lock")
	// ErrUnsupported: the database cannot do it. See [UnsupportedError].
	ErrUnsupported = errors.New("pessimistic: the database cannot do this")
	// ErrInvalid: keys, names or tables that cannot be used. See [InputError].
	ErrInvalid = errors.New("pessimistic: bad input")
	// ErrHoldBudget: the transaction kept its locks longer than Options.Hold. See [HoldError]. It is also the cause of the
	// end of the closure's context.
	ErrHoldBudget = errors.New("pessimistic: the locks were held longer than Options.Hold allows")
	// ErrPooled: the connection leads to a pooler that hands out another server connection for each transaction, where a
	// lock of the session would be lost, or left to a stranger.
	ErrPooled = errors.New("pessimistic: a transaction pooler is between here and the server: lock in a transaction, or connect directly")
	// ErrNotHeld: the session no longer held its lock when it was to be released. Its connection was closed.
	ErrNotHeld = errors.New("pessimistic: the session no longer holds its lock")
)

// A MissingError says which rows do not exist. Those that do are locked, in a transaction of the caller's, until its end.
type MissingError struct {
	// Table is the table's name.
	Table string
	// Keys are the keys without a row, in the order of the request.
	Keys []any
}

func (e *MissingError) Error() string {
	const shown = 5
	text := ""
	for i, k := range e.Keys {
		if i == shown {
			text += fmt.Sprintf(" and %d more", len(e.Keys)-shown)
			break
		}
		if i > 0 {
			text += ", "
		}
		text += cut(fmt.Sprint(k))
	}
	return fmt.Sprintf("pessimistic: table %q has no row with the key %s", e.Table, text)
}

// cut shortens a key that is a text without end.
func cut(key string) string {
	const shown = 64
	if len(key) <= shown {
		return key
	}
	return strings.ToValidUTF8(key[:shown], "") + "…"
}

// Is matches [ErrMissing].
func (e *MissingError) Is(target error) bool { return target == ErrMissing }

// Outcome returns NotApplied.
func (e *MissingError) Outcome() holdfast.Outcome { return holdfast.NotApplied }

// A NotAvailableError says that a lock could not be had within the policy, and that none of the call is held.
type NotAvailableError struct {
	// Name is the table, or the namespace of an advisory lock.
	Name string
	// Waited is how long the call took.
	Waited time.Duration
	// Err is the error of the database, if it was one.
	Err error
}

func (e *NotAvailableError) Error() string {
	text := fmt.Sprintf("%v: on %q, after %v", ErrNotAvailable, e.Name, e.Waited.Round(time.Millisecond))
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns Err.
func (e *NotAvailableError) Unwrap() error { return e.Err }

// Is matches [ErrNotAvailable].
func (e *NotAvailableError) Is(target error) bool { return target == ErrNotAvailable }

// Outcome returns NotApplied.
func (e *NotAvailableError) Outcome() holdfast.Outcome { return holdfast.NotApplied }

// An UnsupportedError names what a database cannot do. Nothing was sent to it.
type UnsupportedError struct {
	// What is missing, and Dialect the name of the engine.
	What, Dialect string
}

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("pessimistic: %s has no %s", e.Dialect, e.What)
}

// Is matches [ErrUnsupported].
func (e *UnsupportedError) Is(target error) bool { return target == ErrUnsupported }

// Outcome returns NotApplied.
func (e *UnsupportedError) Outcome() holdfast.Outcome { return holdfast.NotApplied }

// An InputError says what is wrong with keys, names or a table. Nothing was sent to the database.
type InputError struct {
	// Name is the table or namespace, Reason what is wrong and what to do about it.
	Name, Reason string
	// Err is the error behind it, if there is one: a [*tx.NameError].
	Err error
}

func (e *InputError) Error() string {
	text := fmt.Sprintf("pessimistic: %.64q: %s", e.Name, e.Reason)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns Err.
func (e *InputError) Unwrap() error { return e.Err }

// Is matches [ErrInvalid].
func (e *InputError) Is(target error) bool { return target == ErrInvalid }

// Outcome returns NotApplied.
func (e *InputError) Outcome() holdfast.Outcome { return holdfast.NotApplied }

// A HoldError says that a transaction kept its locks too long and was rolled back. The database may have ended it earlier
// than the closure: then Err says so.
type HoldError struct {
	// Budget is Options.Hold.
	Budget time.Duration
	// Err is what the closure returned, if it was an error.
	Err error
}

func (e *HoldError) Error() string {
	text := fmt.Sprintf("%v (%v): do less in the transaction, or allow more", ErrHoldBudget, e.Budget)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns Err.
func (e *HoldError) Unwrap() error { return e.Err }

// Is matches [ErrHoldBudget].
func (e *HoldError) Is(target error) bool { return target == ErrHoldBudget }

// refused is how an error before BEGIN is returned.
func refused(err error) error { return &tx.AbortError{Err: err} }

// unavailable reports whether the database gave a lock up: PostgreSQL's lock_not_available.
func unavailable(err error) bool {
	var e interface{ SQLState() string }
	return errors.As(err, &e) && e.SQLState() == "55P03"
}
