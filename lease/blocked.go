package lease

import (
	"fmt"
	"strings"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
)

// A Blocker is a session of the database whose transaction keeps a lease from being taken: it passed the guard, and has not ended.
type Blocker struct {
	// PID is the session's process on the server: pg_terminate_backend ends it.
	PID int
	// Application is its application_name.
	Application string
	// State is what it does, such as "active" or "idle in transaction". Empty without the privilege to see it.
	State string
	// QueryAge is how long ago its last query began, and TransactionAge how long ago its transaction did. 0 without the
	// privilege to see it.
	QueryAge, TransactionAge time.Duration
}

// String describes the session in a few words.
func (b Blocker) String() string {
	text := fmt.Sprintf("pid %d", b.PID)
	if b.Application != "" {
		text += fmt.Sprintf(" of %q", b.Application)
	}
	if b.State != "" {
		text += fmt.Sprintf(" (%s, transaction %v old, last query %v old)",
			b.State, b.TransactionAge.Round(time.Millisecond), b.QueryAge.Round(time.Millisecond))
	}
	return text
}

// A BlockedError says that a lease did not get a new token, above all since transactions that it guards are open. It matches
// [ErrBlocked].
type BlockedError struct {
	// Name is the lease, Holder and Token are those of the holder that was to be evicted.
	Name, Holder string
	Token        int64
	// Cut tells that the holder is refused already, by renewals and guards, and that what blocks are transactions which the guard
	// had let pass before. Otherwise nothing was changed: on SQLite, whose one writer was busy all the time.
	Cut bool
	// Blockers are the sessions of those transactions, where the store knows them: PostgreSQL does, and SQLite does not.
	Blockers []Blocker
	// Err is why they were waited for no longer.
	Err error
}

// Error names the sessions, and how to end them.
func (e *BlockedError) Error() string {
	text := fmt.Sprintf("lease: %q could not be taken from its holder in time", e.Name)
	if e.Cut {
		text = fmt.Sprintf("lease: %q was taken from its holder, and others cannot have it yet", e.Name)
	}
	if len(e.Blockers) > 0 {
		sessions := make([]string, len(e.Blockers))
		for i, b := range e.Blockers {
			sessions[i] = b.String()
		}
		text += ": a transaction that it guards is open in " + strings.Join(sessions, " and ") +
			"; wait for its end, or end it with pg_terminate_backend"
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Is matches ErrBlocked.
func (e *BlockedError) Is(target error) bool { return target == ErrBlocked }

// Unwrap returns Err.
func (e *BlockedError) Unwrap() error { return e.Err }

// Outcome is Applied if the holder is cut off, and otherwise NotApplied.
func (e *BlockedError) Outcome() holdfast.Outcome {
	if e.Cut {
		return holdfast.Applied
	}
	return holdfast.NotApplied
}
