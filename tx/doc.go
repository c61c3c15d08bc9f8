// Package tx is the transaction contract that the patterns of Holdfast share: how a transaction begins, ends, nests and
// runs again, what an error proves, and what a pattern sees of a transaction that it did not begin.
//
//	db := pgxtx.New(pool) // or sqltx.New(sqlDB, tx.SQLite, nil)
//	err := db.Do(ctx, func(ctx context.Context, t pgx.Tx) error {
//		return transfer(ctx, t, from, to, amount)
//	})
//	switch holdfast.OutcomeOf(err) {
//	case holdfast.Applied:    // committed, proved
//	case holdfast.NotApplied: // nothing happened: safe to try again
//	case holdfast.Unknown:    // the reply to COMMIT was lost
//	}
//
// # Guarantees
//
//   - Do commits when the closure returns nil and rolls back otherwise, also after a panic or runtime.Goexit. Commit and
//     rollback run on a context of their own, so a cancelled caller leaks nothing.
//   - After a serialization failure or a deadlock the whole closure runs again in a fresh transaction, with full jitter
//     and a cap; nested calls take a savepoint and never run again by themselves.
//   - A nil error means that the commit is proved. A statement error that the closure dropped is [ErrTxAborted] where the
//     engine ended the transaction.
//   - An [AbortError] proves that nothing was applied; a [CommitUnknownError] says that nobody knows.
//   - In a transaction of the caller's, patterns never commit, roll back or retry.
//
// # What a transaction promises
//
// It is for one goroutine at a time and ends with the closure. Nobody rolls it back from another goroutine.
//
// # Failure modes
//
// The closure can run more than once: what must not be repeated belongs into the transaction, or into [AfterCommit]. A
// commit whose reply is lost is resolved where the transaction left a trace, as package idem does, and is otherwise
// reported as it is.
//
// # Errors
//
// [Classify] sorts errors by SQLSTATE or SQLite result code without importing drivers. [UniqueViolation] and its sisters
// name the constraint. errors.Is finds [ErrNotSent], [ErrReadOnly] and [ErrNotMigrated] on what Do returns.
//
// # Settings
//
// [Options] hold isolation, read-only, attempts and the commit timeout; [DB.With] returns a DB with others on the same
// pool.
//
// # When not to use it
//
// For a single statement that is atomic by itself: [DB.Conn] runs it in one round trip.
package tx
