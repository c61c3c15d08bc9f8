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
// A service that is generic in T runs on each adapter: it writes through [DB.Tx] of t, whose placeholders are $1, $2 on all engines.
//
// # Guarantees
//
//   - Do commits when the closure returns nil and rolls back otherwise, also after a panic or runtime.Goexit. Commit and
//     rollback run on a context of their own, so a cancelled caller leaks nothing.
//   - After a serialization failure or a deadlock the whole closure runs again in a fresh transaction, with full jitter
//     and a cap, and within a [Budget] over all callers if one is set. Closures of one DB that run again take turns, no
//     longer than half a second each, since those that want the same rows abort each other for as long as they meet.
//     Nested calls take a savepoint and never run again by themselves.
//   - A nil error means that the commit is proved. A statement error that the closure dropped is [ErrTxAborted] where the
//     engine ended the transaction.
//   - An [AbortError] proves that nothing was applied; a [CommitUnknownError] says that nobody knows.
//   - In a transaction of the caller's, patterns never commit, roll back or retry.
//
// # What a transaction promises
//
// A transaction is for one goroutine at a time and ends with the closure; use after that is an error. Whoever began it
// ends it, and nobody else: not a pattern, not a joined Do, not another goroutine when the context ends. A statement whose
// context ends fails, and on PostgreSQL takes the transaction with it.
//
// A pattern that gets a [Tx] leaves it usable unless a statement failed. What only a fresh transaction can cure is not
// cured by a savepoint: it goes up to the outermost Do, whatever the closures in between make of it. The conflict must be
// visible in the chain of the error for that (wrap it with %w), unless a savepoint has seen it.
//
// # Outcomes
//
//	error of Do            what happened                                       outcome      runs again
//	nil                    the server said that it committed                   Applied
//	*AbortError            the closure failed, or the database refused         NotApplied   if its class is Retryable
//	*CommitUnknownError    COMMIT was sent, its reply never came               Unknown      never, unless resolved
//	*EndedError            it was over before Do could end it                  Unknown      never
//
// # Lost replies
//
// When the reply to COMMIT is lost, Do looks for the outcome in this order, each time no longer than the commit timeout:
//
//  1. [Plan].Resolve, if [DB.Run] was given one, looks for what the transaction wrote. That is the surest proof, and
//     holds over a restart. Package idem does so with its row; package pgxtx has an example with a
//     marker of your own.
//  2. [Options].ResolveCommit asks PostgreSQL for the status of the transaction. One that is still in progress is asked
//     for again, for its commit may be under way. A standby, a server that restarted since, one that took over, and a
//     transaction too old to be known prove nothing: after a crash the same number can belong to another transaction.
//     Every process in between (a pooler, a load balancer) must lead to the primary.
//  3. Else the outcome stays unknown.
//
// If it was applied, Do goes on as if the reply had come, and hooks run. If not, the closure runs again. On SQLite a
// commit is a call in the process, and there is no reply to lose.
//
// # Round trips
//
//	                                         pgxtx             sqltx
//	n statements in Do                       n + 2             n + 2
//	statements that lead (with BEGIN)        + 0               + 1 each
//	statements deferred (to the COMMIT)      + 0               + 1 each
//	Options.ResolveCommit                    + 0               + 1
//	a batch                                  1                 1 each
//	a savepoint that succeeds                + 2               + 2
//
// # Error classes
//
//	Class                         PostgreSQL                      SQLite                     then
//	Retryable                     40001 40P01                     BUSY LOCKED                the closure runs again
//	Unique                        23505                           UNIQUE PRIMARYKEY ROWID    see UniqueViolation
//	Exclusion                     23P01                                                      see ExclusionViolation
//	ForeignKey                    23503                           FOREIGNKEY                 see ForeignKeyViolation
//	Check                         23514                           CHECK                      see CheckViolation
//	NotSent                       dial failed, 53300 57P03        cannot open                ErrNotSent
//	ReadOnly                      25006                           READONLY                   ErrReadOnly
//	Undefined                     42P01 42703 3F000               by its message             ErrNotMigrated
//	Lost                          08xxx 57P01 57P02, broken       IOERR                      at COMMIT: unknown
//	Permanent                     the rest                        the rest
//
// # Failure modes
//
// The closure can run more than once: what must not be repeated belongs into the transaction, or into [AfterCommit]. A
// commit whose reply is lost is looked up as said above, and is otherwise reported as it is.
//
// # Errors
//
// [Classify] reads the SQLSTATE or the result code of SQLite out of the error's chain and imports no driver.
// [UniqueViolation] and its sisters name the constraint. errors.Is finds [ErrNotSent], [ErrReadOnly] and
// [ErrNotMigrated] on what Do returns.
//
// # Settings
//
// [Options] hold isolation, read-only, attempts, the retry budget, the commit timeout and whether the server is asked for
// a commit's outcome; [DB.With] returns a DB with others on the same pool. A context with a deadline bounds the time that
// runs take together.
//
// # When not to use it
//
// For a single statement that is atomic by itself: [DB.Conn] runs it in one round trip.
package tx
