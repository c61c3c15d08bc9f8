package tx

import (
	"errors"
	"fmt"

	holdfast "github.com/holdfast-go/holdfast"
)

// Errors of transactions.
var (
	// ErrNilFunc: the closure is nil.
	ErrNilFunc error = nilFunc{}
	// ErrNoTransaction: the context is not that of a closure of Do.
	ErrNoTransaction = errors.New("tx: no transaction in the context: pass the context that the closure of Do received")
	// ErrOwned: the closure called Commit or Rollback on a transaction that Do ends. Return nil to commit, an error to
	// roll back.
	ErrOwned = errors.New("tx: Do ends this transaction: return nil to commit or an error to roll back")
	// ErrEnded: the closure ended the transaction by itself, so that what it did may or may not be applied.
	ErrEnded = errors.New("tx: the closure ended the transaction by itself")
	// ErrTxAborted: a statement failed, the closure went on, and the database had ended the transaction.
	ErrTxAborted = errors.New("tx: a statement failed and the transaction is aborted: return its error from the closure")
	// ErrCommitUnknown: the reply to the commit was lost. See [CommitUnknownError].
	ErrCommitUnknown = errors.New("tx: the outcome of the commit is unknown")
	// ErrAttempts: the closure was run as often as Options.Attempts allows.
	ErrAttempts = errors.New("tx: no attempts left")
	// ErrBudget: Options.RetryBudget is used up. Too many transactions were in conflict.
	ErrBudget = errors.New("tx: the retry budget is used up")
	// ErrNotSent: the server could not be reached, and nothing was sent to it.
	ErrNotSent = errors.New("tx: the database could not be reached: check its address and that it is up")
	// ErrReadOnly: the server or the transaction is read-only, as a replica is and a primary that failed over.
	ErrReadOnly = errors.New("tx: the database is read-only: connect to the primary")
	// ErrNotMigrated: a table or column is missing.
	ErrNotMigrated = errors.New("tx: a table or column does not exist: apply the package's migrations, or mend the name of a table of your own")
	// ErrColumn: a column of a table is not such that the code can work with it. See [ColumnError].
	ErrColumn = errors.New("tx: a column cannot be used")
	// ErrPrivilege: the database user may not do to a table what the code does.
	ErrPrivilege = errors.New("tx: the database user lacks a privilege")
	// ErrNoRows: the query returned no row.
	ErrNoRows = errors.New("tx: no rows")
)

type nilFunc struct{}

func (nilFunc) Error() string { return "tx: the function to run in the transaction is nil" }

// Outcome returns NotApplied.
func (nilFunc) Outcome() holdfast.Outcome { return holdfast.NotApplied }

// An AbortError says that a transaction was rolled back, or never begun: nothing of it was applied. It wraps the error
// that made it so. errors.Is finds ErrNotSent, ErrReadOnly and ErrNotMigrated by the class of the error.
type AbortError struct {
	// Err is the error of the closure or of the database, that of the last attempt.
	Err error
	// Class is what kind of error Err is.
	Class Class
	// Attempts is how often the transaction was tried.
	Attempts int
	// Stop is why it was not tried again, if its class allows that: ErrAttempts, ErrBudget, or the cause of the context's
	// end.
	Stop error
}

func (e *AbortError) Error() string {
	text := e.Err.Error()
	if hint := e.Class.sentinel(); hint != nil && !errors.Is(e.Err, hint) {
		text = hint.Error() + ": " + text
	}
	if e.Stop != nil {
		text = fmt.Sprintf("%v, after %d attempts: %s", e.Stop, e.Attempts, text)
	}
	return text
}

// Unwrap returns Err and Stop.
func (e *AbortError) Unwrap() []error {
	if e.Stop == nil {
		return []error{e.Err}
	}
	return []error{e.Err, e.Stop}
}

// Is matches the sentinel of the error's class.
func (e *AbortError) Is(target error) bool {
	sentinel := e.Class.sentinel()
	return sentinel != nil && target == sentinel
}

// Outcome returns NotApplied.
func (e *AbortError) Outcome() holdfast.Outcome { return holdfast.NotApplied }

// Transient reports whether the same transaction may go through later: it met a conflict, or a server that was not there or
// went away, and was not tried as often as it may be. Package retry asks for it.
func (e *AbortError) Transient() bool {
	return e.Stop == nil && (e.Class == Retryable || e.Class == NotSent || e.Class == Lost)
}

// A CommitUnknownError says that COMMIT was sent and its reply lost: the transaction may or may not be applied. Only
// an operation that is idempotent may be tried again.
type CommitUnknownError struct {
	// Err is what happened to the connection.
	Err error
	// Resolve is why it could not be found out, if that was tried.
	Resolve error
}

func (e *CommitUnknownError) Error() string {
	text := fmt.Sprintf("%v: %v", ErrCommitUnknown, e.Err)
	if e.Resolve != nil {
		text += fmt.Sprintf("; looking for its effect: %v", e.Resolve)
	}
	return text
}

// Unwrap returns Err, and Resolve if it is set.
func (e *CommitUnknownError) Unwrap() []error {
	if e.Resolve == nil {
		return []error{e.Err}
	}
	return []error{e.Err, e.Resolve}
}

// Is matches ErrCommitUnknown.
func (e *CommitUnknownError) Is(target error) bool { return target == ErrCommitUnknown }

// Outcome returns Unknown.
func (e *CommitUnknownError) Outcome() holdfast.Outcome { return holdfast.Unknown }

// An EndedError says that the transaction was over before Do could end it: the closure committed or rolled back a
// *sql.Tx, or SQLite ended the transaction after an error that the closure dropped, so that what came after ran on its
// own. What was done may or may not be applied.
type EndedError struct {
	// Err is the error of the closure, if it returned one, or ErrTxAborted if the engine ended the transaction.
	Err error
}

func (e *EndedError) Error() string {
	if e.Err == nil {
		return ErrEnded.Error()
	}
	return e.Err.Error() + " (" + ErrEnded.Error() + ")"
}

// Unwrap returns Err.
func (e *EndedError) Unwrap() error { return e.Err }

// Is matches ErrEnded.
func (e *EndedError) Is(target error) bool { return target == ErrEnded }

// Outcome returns Unknown.
func (e *EndedError) Outcome() holdfast.Outcome { return holdfast.Unknown }
