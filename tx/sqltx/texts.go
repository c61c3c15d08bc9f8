package sqltx

import (
	"errors"
	"strings"
)

// These are the errors without a code of their own. Each text is proved against the real drivers in the module test/.

// committedAsRollback reports whether a COMMIT of PostgreSQL rolled back, since a statement before it had failed. It is
// pgx.ErrTxCommitRollback or pq.ErrInFailedTransaction.
func committedAsRollback(err error) bool {
	return has(err, "commit unexpectedly resulted in rollback") ||
		has(err, "pq: Could not complete operation in a failed transaction")
}

// noTransaction reports whether a COMMIT or ROLLBACK of SQLite found no transaction, since an error had ended it.
func noTransaction(err error) bool { return has(err, "no transaction is active") }

// withinTransaction reports whether a BEGIN of SQLite found a transaction.
func withinTransaction(err error) bool {
	return has(err, "cannot start a transaction within a transaction")
}

func has(err error, text string) bool { return err != nil && strings.Contains(err.Error(), text) }

// hasCode reports whether the database itself sent err.
func hasCode(err error) bool {
	var state interface{ SQLState() string }
	return errors.As(err, &state) && state.SQLState() != ""
}
