// Package idem does the work of one logical operation once, however often and however concurrently it is submitted: a
// retried payment, a double click, a redelivered webhook. The claim of the key, the work, its answer and the completion
// are one commit in the caller's own database.
//
//	keys := idem.New(db, nil) // db := pgxtx.New(pool) or sqltx.New(sqlDB, tx.SQLite, nil)
//
//	key := idem.Key{Scope: tenant, Name: "charge", Value: r.Header.Get("Idempotency-Key"), Fingerprint: idem.FingerprintOf(body)}
//	res, err := idem.Do(ctx, keys, key, func(ctx context.Context, t pgx.Tx) (Receipt, error) {
//		return charge(ctx, t, order) // your SQL, your sqlc, in this transaction
//	})
//
// [Do] begins the transaction and [DoTx] joins one of the caller's. [Inbox] is the same for messages, which have no answer:
// a consumer handles each once. Package idemhttp does it for HTTP handlers.
//
// A call to a payment provider is in no commit. [DoLeased] holds the key meanwhile, in a row that all processes see:
//
//	leased := idem.NewLeased(keys, nil)
//	res, err := idem.DoLeased(ctx, leased, key, func(ctx context.Context, run *idem.RunTx[pgx.Tx]) (Receipt, error) {
//		paid, err := idem.Step(ctx, run, idem.External[Charge]{Name: "charge", Call: provider.Charge, Reconcile: provider.Find})
//		if err != nil {
//			return Receipt{}, err
//		}
//		return idem.Finish(ctx, run, func(ctx context.Context, t pgx.Tx) (Receipt, error) { return book(ctx, t, paid) })
//	})
//
// # Guarantees
//
//   - The effects that a closure has in its transaction happen at most once for each key while its row is kept, under
//     retries, concurrency and crashes at any point. If the process dies, all of it is there or nothing is.
//   - A repetition gets the stored answer, byte for byte, and writes nothing.
//   - A duplicate at the same moment never runs the closure. It is refused at once with [ErrInFlight], or waits for the
//     answer up to [Options].Wait without a connection. Calls of one [Keys] do not even reach the database: a hot key costs
//     it one call, and other keys nothing. On SQLite a duplicate of another process waits for the writer, up to the busy
//     timeout.
//   - A key that comes with another request is refused with [ErrMismatch], wherever the first fingerprint is visible:
//     while the first call is still running, only in its own process, since its row is not committed.
//   - A business failure that is final is an answer too: see [Failure]. A declined card (402) is replayed, a 503 is not.
//   - In a transaction of the caller's nothing is committed, rolled back or retried, and a refusal leaves it usable.
//   - No scope reads another's answers: keys are digests of scope, name and value, each with its length. An answer that
//     a codec has sealed does not open in the row of another key, even for somebody who can write to the table.
//
// They hold at READ COMMITTED, REPEATABLE READ and SERIALIZABLE. At the latter two a lost race is a serialization failure,
// which [Do] retries and which a caller's own transaction must.
//
// They hold for what the closure does in the transaction that it is given. A call to another service, an e-mail, a write
// through another connection are outside: they happen again when the closure runs again, and are not undone with it. For those:
//
//   - Of the executions of a key by [DoLeased] one at a time has the lease, and only that one can record a step, store an answer
//     or commit a [Finish]: the epoch decides, never the time. What an execution before wrote in its business transaction is
//     undone. A lease that runs out lets others take over, and does not void its owner as long as nobody has.
//   - A [Step] that is recorded is not made again. One that had begun when its process died is looked for by its Reconcile,
//     and made again only if that says that it did not happen; where nobody knows the key is Unknown, and stays so until somebody
//     does. Every try has the same child key, so that a service which honours it has one effect whatever happens here.
//   - What was done is recorded before it is answered. Whoever can no longer rely on the lease has its context ended first.
//
// # Failure modes
//
//   - Crash before the commit: the database rolls back, the key is free, a retry does the work.
//   - Crash after the commit, before the answer reaches the caller: a retry replays it.
//   - The reply to COMMIT is lost: Do looks the key up on another connection and answers accordingly; if that fails too
//     it returns [ErrOutcomeUnknown], after which a retry with the same key is safe.
//   - Two executions in spite of the lock, say of versions that hash differently: the second to commit is rolled back by
//     the primary key, and replays the first.
//   - The same, and the answer of the other has gone by then: [ErrKeyExpired]. Nothing is done a second time.
//   - A key that is called in its own closure, through whatever Keys of the table: an [InFlightError] that is Nested.
//   - A process that dies or is paused in [DoLeased]: when its lease is over, the next call, or [Leased.Complete] for the
//     operations of [Handle], takes over under a higher epoch, and goes on from the recorded steps.
//   - The answer of a leased call cannot be stored: it is tried until the lease ends, then [ErrNotRecorded]. The key is not freed.
//   - A key that is in use by Do and by DoLeased: whoever comes first has it, and the other is refused with [ErrInFlight]. Do
//     never takes over a lease.
//   - The clock of the application does not matter: expiry is decided by the server's.
//   - A key that is reused after its TTL is refused with [ErrKeyExpired] as long as its tombstone stands, and is a new
//     operation once [Keys.Sweep] has removed that, or at once with [Options].AllowReuse.
//
// # Storage
//
// Table "idem_key", one row for each key: a digest instead of the value, the scope and name as they are, the answer as
// bytes. Table "idem_inbox", one row for each consumer and message. [Migrate] makes them; [Migrations] are plain files for
// other tools. In a transaction at READ COMMITTED the row of a key is inserted once, complete, with the commit: no second
// version, nothing to vacuum until it is swept. On PostgreSQL a transaction-level advisory lock on 64 bits of the digest
// stands for the running operation.
//
// Work that leaves the database has a row from its claim on, with what is known of its steps and input, sealed as answers are, and
// the text of the last error, which is not. A partial index finds the rows that are open. The sequence "idem_key_epoch" numbers the
// executions and follows the server's clock, so that epochs rise over purges and the restore of a backup; it takes the privilege
// UPDATE. A [Store] elsewhere, such as that of package redisidem, does the same by [NewLeasedOn], without transactions.
//
// [Options].Codecs seal answers, failures too, before they are stored: [AESGCM] encrypts them. [Options].CacheBytes keeps
// answers in memory, so that a repetition in the same process costs no round trip.
//
// # Removal
//
// [Keys.Erase] removes all that is kept of a scope, [Keys.Delete] one key, and [Keys.Release] one whose answer is a
// failure. What is removed is a new operation when it comes again: end the traffic before, and undo the effect by hand
// where it must not happen twice. None touches an operation that is running, and neither they nor a sweep a key that is Unknown or
// Pending: [Leased.Resolve] is for those.
//
// # States
//
// In one commit PENDING does not occur, since a claim is not visible before it, and PROCESSING is a lock, or state 1 at the higher
// isolation levels. For work that leaves the database the usual words are these, as [Leased.List] shows them:
//
//	PENDING     [Pending]    6  given up with all its steps recorded; the next call or Complete goes on
//	PROCESSING  [Running]    1  has a lease; once that has run out, the next call takes over
//	COMPLETED   [Completed]  2  has an answer
//	FAILED      [Failed]     3  has a final failure, which is replayed
//	(no word)   [Unknown]    5  a step has begun, and nobody knows what became of it
//	(no word)   [Expired]    4  a tombstone: the key was used, and its answer is gone
//
// # Waiting
//
// A duplicate waits, no longer than Wait, without a connection. Calls of one process wait for the one of them that asks. Of work that
// leaves the database, one in another process leaves word in the row, and whatever ends the execution then notifies, in its own
// statement: over pgx on PostgreSQL one connection of a process listens while anybody waits; see package pgxtx. Where nobody has left
// word nobody is notified. Nothing depends on it: who is not woken looks again, soon at first, and then about every second.
//
// # Settings
//
// Choose TTL longer than the longest path on which a retry can come; 24 hours suits interactive clients, 7 days suits
// queues with a dead letter queue. Run [Keys.SweepEvery] in one goroutine of each process. Leave Wait at 0 for HTTP, where
// 409 with Retry-After is understood, and set it where the caller would only poll.
//
// [LeaseOptions].Lease is how long a crash keeps a key, not how long the work may take: it is renewed. Run [Leased.CompleteEvery] in
// one goroutine of each process, and look at [Leased.List] for what is Unknown and old.
//
// # When not to use it
//
// [Do] is not for work that calls a payment provider, since one commit cannot cover it, and [DoLeased] not for work that stays in the
// database, which pays two commits for it. Neither is for many steps of several services that undo each other. For reads. For messages whose handler is idempotent
// by itself, such as a named column set to a value from the message.
package idem
