package tx

import (
	"context"
	"errors"
)

// A Class is what kind of error a database error is: it decides what may be done about it.
type Class int

const (
	// Permanent: trying again changes nothing. It is the class of every error that no other fits.
	Permanent Class = iota
	// Retryable: a serialization failure, a deadlock, or a busy SQLite database. The whole transaction may run again.
	Retryable
	// Unique: a unique constraint was violated. See [UniqueViolation].
	Unique
	// Exclusion: an exclusion constraint was violated. See [ExclusionViolation].
	Exclusion
	// ForeignKey: a foreign key was violated. See [ForeignKeyViolation].
	ForeignKey
	// Check: a check constraint was violated. See [CheckViolation].
	Check
	// NotSent: the server was not reached, so that nothing happened.
	NotSent
	// ReadOnly: the server or the transaction does not take writes.
	ReadOnly
	// Undefined: a table, column or schema is missing.
	Undefined
	// Lost: the connection broke. What was under way has no known outcome, except that a transaction whose COMMIT was
	// not sent is not applied.
	Lost
)

var classNames = [...]string{
	"permanent", "retryable", "unique violation", "exclusion violation", "foreign key violation", "check violation",
	"not sent", "read-only", "undefined", "connection lost",
}

// String returns the class in words.
func (c Class) String() string {
	if c < 0 || int(c) >= len(classNames) {
		return "invalid"
	}
	return classNames[c]
}

func (c Class) sentinel() error {
	switch c {
	case NotSent:
		return ErrNotSent
	case ReadOnly:
		return ErrReadOnly
	case Undefined:
		return ErrNotMigrated
	default:
		return nil
	}
}

// Classify sorts err by what its chain carries: the SQLSTATE of pgx and lib/pq (and of any error with a method
// SQLState), the result code of modernc.org/sqlite and mattn/go-sqlite3, or a method SafeToRetry. It imports none of
// them. Errors of contexts are Permanent.
func Classify(err error) Class {
	if err == nil {
		return Permanent
	}
	if errors.Is(err, ErrCommitUnknown) {
		return Permanent // whatever went wrong on the way, running it again could do it twice
	}
	var aborted *AbortError
	if errors.As(err, &aborted) && aborted.Class != Permanent {
		return aborted.Class
	}
	if errors.Is(err, ErrNotSent) {
		return NotSent
	}
	if state := sqlState(err); state != "" {
		return classOfState(state)
	}
	if code, message, ok := sqliteError(err); ok {
		return classOfSQLite(code, message)
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return Permanent
	}
	if unsent(err) {
		return NotSent
	}
	return classOfConnection(err)
}
