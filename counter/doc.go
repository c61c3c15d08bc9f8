// Package counter counts without losing a unit, and takes from a stock without selling more than there is: in a table of its
// own, or in a column of yours.
//
//	stock := counter.NewColumn(db, counter.Column{Table: "event", Key: "id", Column: "seats_left"}, nil)
//	_, err := stock.Take(ctx, eventID, 2, counter.Once(requestID))
//	if errors.Is(err, counter.ErrInsufficient) { … } // sold out
//
// Operation IDs are kept in a table that [Migrate] makes, also for a column of yours.
//
// # Guarantees
//
//   - A change is one conditional statement on the value that is there, never a value that was read before: no update is
//     lost, and [Counters.Take] never takes more than there is, nor a part. Success is what the statement returned.
//   - A nil error of a plain verb means that the change is committed; one of a verb with the suffix Tx takes effect with the
//     caller's transaction.
//   - With [Once], of all calls with one operation ID one is applied, also after a lost reply, in another process, or in the
//     caller's own transaction. The mark is in the transaction of the change.
//   - Calls of one process at the same moment for one counter share a commit and are acknowledged after it. Each gets its own
//     answer; one that cannot be done spoils no other. A call that is alone goes straight to the database.
//   - A counter in slots ([Counters.Resize]) has one exact value, at any moment of a change of their number too. A take finds
//     the stock of all slots.
//   - An amount that the counter could not hold is refused by a condition, so that the caller's transaction stays usable.
//   - [Counters.AddMany] changes counters in the order of their keys, all or none.
//
// # Failure modes
//
// A lost reply without an operation ID is an [*UnknownError]: repeating the call may count twice. With [Once] the call is
// repeated by itself, and may be by the caller. The reply to a shared commit is looked up by a marker in the same
// transaction; if the database cannot be asked, each call in it gets an UnknownError. A call whose context ends while a
// batch has taken it gets one too: the batch goes on.
//
// Constraints and triggers of a table of yours see the changes of a shared commit as one: what the value would have been in
// between is not written. A change that they refuse is made again without the others, so that it spoils none of them.
//
// A column that cannot count, a key column that is not unique, and a Max that the column does not hold are errors of
// [Counters.Check], which finds a read-only database and a missing table too.
//
// A row stays locked until its transaction ends. In a transaction of yours, change counters last, and several of them by
// [Counters.AddManyTx]; transactions that change the same counters in different orders, or twice one that is in slots, deadlock,
// and [tx.DB.Do] runs the victim again.
//
// A column that is counted is for the counter alone: a change of it moves no version, so that package optimistic, or whoever reads it
// and writes a value, overwrites what was counted meanwhile.
//
// What breaks the guarantees: writing the tables by other means without a lock, an operation ID that is new for each attempt,
// and an Options.TTL shorter than the longest retry.
//
// # Storage
//
// Table counter has a row for each slot of a counter. Table counter_op has one for each operation ID that is remembered, and
// one for the last shared commit of a counter in a process. [Counters.Sweep] removes what has expired; run
// [Counters.SweepEvery] in a goroutine. [Migrate] makes both.
//
//	round trips (pgx)                       alone   in a transaction of yours
//	Add, Take                               1       1
//	with Once                               1       2
//	a repetition with Once                  2       2
//	Get                                     1       1
//
// A take that the first statement refuses costs a transaction beside, to say what there is.
//
// # Settings
//
// See [Options]. A counter that one process changes often needs none: 32 callers share one commit. Where many processes, or
// long transactions, change one counter, give it slots: 16 are a good start. Call [Counters.Close] before the pool is closed,
// since batches go on without their callers.
//
// # When not to use it
//
// For numbers that need not be exact, or may lag: count in memory, or in Redis. For invoice numbers without gaps: they are
// as slow as the row lock, by nature. SQLite has one writer at a time: slots bring nothing there.
package counter
