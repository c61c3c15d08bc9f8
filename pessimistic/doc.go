// Package pessimistic locks rows before they are read, decided about and written: a transfer that must see both balances, a
// worker that must have its job alone. Any rows of any tables are locked in one deterministic order, so that no two callers
// meet in a deadlock, in the caller's own database and transaction.
//
//	locks := pessimistic.New(db, nil) // db := pgxtx.New(pool) or sqltx.New(sqlDB, tx.SQLite, nil)
//	accounts := pessimistic.Table{Name: "account"}
//
//	err := locks.Do(ctx, []pessimistic.Rows{accounts.Rows(from, to)}, func(ctx context.Context, t pgx.Tx) error {
//		return transfer(ctx, t, from, to, amount) // nobody else changes these two until the commit
//	})
//
// [Locks.Lock] does the same in a transaction that is open, [Rows.Read] reads columns of the locked rows in the same round
// trip, [Locks.Work] and [Locks.Claim] take jobs from a queue, and [Locks.Advisory] locks names that need no row.
//
// # Guarantees
//
//   - Rows are locked in one order: tables by name, the rows of a table as the database orders their keys. Callers who name
//     all their rows in one call meet no deadlock with each other. It assumes that a table is named in one way, that nobody
//     changes the key column, and that the transaction holds nothing else that the others want.
//   - Each row is locked once, and one that does not exist is reported with [MissingError].
//   - What [Rows.Read] reads is what is committed, and stays so until the end of the transaction, with a strength of
//     [NoKeyUpdate] or [Update].
//   - A lock that is not to be had is [ErrNotAvailable], and a transaction of the caller's stays usable: the attempt has a
//     savepoint. What the policy sets for it is put back in the same round trip.
//   - Two claims never take the same job. A claim ends with its transaction: a worker that dies leaves the job free.
//   - While a transaction holds locks, [Guard] and [holdfast.ExternalCall] refuse to leave the database, with an error that
//     names the lock, if they get the context of the closure. For a transaction that was begun otherwise, make that context
//     with [holdfast.WithLockScope], and end the scope with the transaction.
//   - [Options].Hold ends a transaction that keeps its locks too long, on PostgreSQL even if this process stands still.
//   - In a transaction of the caller's nothing is committed, rolled back or retried.
//
// # Round trips
//
//	                                        pgxtx    sqltx, PostgreSQL
//	Lock of k rows, in t tables             1        t
//	with NoWait or For in the transaction   + 0      + 2, and + 2 for the setting of For
//	with Hold                               + 0      + 1
//	with Hold, and nothing was locked       + 1      + 1
//	Do                                      1        t + 1
//	a row is missing, or two keys are one   + 1      + 1 for each such key
//	ErrNotAvailable in Lock                 + 1      + 2
//
// In a transaction that pgx began by itself, a statement that it does not know yet costs one more, and ErrNotAvailable 2 to 5.
//
// # Failure modes
//
//   - At REPEATABLE READ and SERIALIZABLE a row that changed since the transaction began is a serialization failure, which
//     Do and Work cure by running again.
//   - Statements that lock in an order of their own, such as one UPDATE of many rows, can still meet a deadlock with these:
//     lock the rows here first. It is retryable: Do runs again.
//   - Two calls of Lock in one transaction have no common order.
//   - A key of several columns is not supported, and is refused: lock by another unique column, or a row that stands for the others.
//   - A lock that waits holds a connection. A pool without a free one makes everybody wait.
//   - The crash of a process frees its locks when the server notices: at once if the connection ends, after its TCP keepalives
//     if the machine disappears, and after Hold if that is set.
//   - For waits that long for each lock, not for all of them together.
//   - Who holds the lock is not said: pg_blocking_pids tells that only while one waits. To look oneself: the xmax of a locked row
//     is a transactionid in pg_locks, beside the pid of its holder, unless several share the row.
//   - A closure that goes on after an error of Lock: one that the policy allows for left the transaction whole, and what else
//     the closure did is committed. After any other, such as a deadlock, PostgreSQL commits nothing and [tx.DB.Do] says so.
//
// # Capabilities
//
// What the engine can do stands in [tx.Capabilities]: RowLocks and AdvisoryLocks. SQLite has neither. There the one writer is
// the lock: Lock makes the transaction the writer of the whole database, whatever the strength, and looks the rows up; Claim
// waits for the writer instead of skipping. The other policies and advisory locks are an [UnsupportedError].
//
// # Storage
//
// None: the rows are the caller's. [AdvisoryID] tells which number stands for a name.
//
// # Settings
//
// [Locks.Check] looks at the tables when the service starts. [Options] hold the policy, the strength, the budget and the observer; [Locks.With] returns Locks with others. Leave the
// policy at [Forever] in the background and set [For] where somebody waits for an answer.
//
// # When not to use it
//
// Where one statement decides by itself: "update … set n = n - q where n >= q" needs no lock before it. Where conflicts are
// rare and a user thinks between reading and writing: compare a version instead. Over several services: a transaction must
// not wait for them.
package pessimistic
