package sqltx

import "strings"

// What follows has no code, only a text. Each is proved against the real drivers in the module test/.

// rolledBack reports whether a COMMIT of PostgreSQL rolled back, since a statement before it had failed:
// pgx.ErrTxCommitRollback or pq.ErrInFailedTransaction.
func rolledBack(err error) bool {
	return has(err, "commit unexpectedly resulted in rollback") ||
		has(err, "ould not complete operation in a failed transaction") // older versions begin it in upper case
}

// endedBefore reports whether lib/pq found no transaction to commit, since the closure had sent COMMIT or ROLLBACK as SQL.
func endedBefore(err error) bool { return has(err, "pq: unexpected transaction status") }

// noTransaction reports whether a COMMIT or ROLLBACK of SQLite found no transaction.
func noTransaction(err error) bool { return has(err, "no transaction is active") }

// withinTransaction reports whether a BEGIN of SQLite found a transaction.
func withinTransaction(err error) bool {
	return has(err, "cannot start a transaction within a transaction")
}

func has(err error, text string) bool { return err != nil && strings.Contains(err.Error(), text) }
