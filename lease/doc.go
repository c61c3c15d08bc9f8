// Package lease gives one process at a time the right to do something, for as long as it is alive, and keeps the ones that only
// believe to have it from writing.
//
//	leases := lease.New(lease.NewSQL(db, lease.Names{}), nil) // db := pgxtx.New(pool) or sqltx.New(sqlDB, tx.SQLite, nil)
//
//	err := leases.Run(ctx, "payout", func(ctx context.Context, h *lease.Held) error { // ctx ends when the lease is lost
//		return lease.Do(ctx, db, h, func(ctx context.Context, t pgx.Tx) error { … }) // commits only while it is held
//	})
//
// A lease alone excludes nobody: a process that is stopped between looking at it and writing wakes up when another has it, and
// writes. So there are two types. An [Advisory] is for efficiency: work that is done twice now and then costs time and nothing
// else. A [Held] has a [Fence], and what must not happen twice is guarded by it.
//
// # Guarantees
//
//   - In the database that the leases are in, the guard is exact: transactions that [Do] or [Fence.Guard] let pass, of all
//     holders of a lease, are one after the other in the order of their tokens. A holder of the past is refused with
//     [ErrFenced], and while a guarded transaction is open nobody else gets the lease, not even when it has run out.
//   - Tokens rise with each acquisition of a name: across release, expiry, and deletion of the row.
//   - The context of a handle ends before the store could give the lease to another: [Options].Margin before its end, counted
//     from before the request that was last granted was sent, on a timer that no request delays.
//   - A lost lease is never taken again behind the caller's back: a handle that ended stays ended.
//   - Renewals go on until the release: also when the caller's context has ended and its work takes time to stop.
//   - A release works on a context that has ended, says whether the lease was still held, and frees nobody else's. An
//     acquisition whose reply was lost is released in the background.
//   - Expiry is judged by the server's clock alone. The clocks of the contenders do not matter, but for their rate.
//
// # Jobs
//
// A lease that is released when the job is done does not keep a process whose clock is behind from doing it again. A [Job] has a row
// for each instant of its schedule, a slot, that stays:
//
//	job := lease.NewJob(store, "nightly", &lease.JobOptions{Schedule: lease.Every(24 * time.Hour)})
//	err := job.Run(ctx, func(ctx context.Context, s *lease.Slot) error { … }, nil) // in each process
//
// What it keeps:
//
//   - A slot has one run, whatever the clocks of the processes say and however short or long it is. [Job.Run] goes by the server's
//     clock alone.
//   - A run that died is followed by another once its lease has run out: what it does is done at least once. What it writes in a
//     transaction with [Job.Finish], or in [Job.OnceTx], is committed exactly once.
//   - A run that returned an error is not: the slot has failed, and says so, until [Job.Reopen].
//   - Slots that nobody began are made up for as [Missed] says, [JobOptions].Window at most.
//
// [Job.Cron], [Locker] and [Elector] fit robfig/cron and gocron.
//
// # Elections
//
// [Leases.Elect] leads whenever it can. It waits for the work of a leader before it gives the lease up; after a loss, a failure or a
// resignation whoever else stands comes first, at the price of Options.PollEvery without a leader where nobody does. [Leases.Leader]
// and [Leases.Watch] are for those who look on.
//
// # Semaphores
//
// A [Semaphore] lets a number of holders in at the same time. Each has a slot, which is a lease with a fence of its own, so that a
// holder of the past is refused as ever; the fences of two slots have no order. The store finds the free slot, in one request.
//
// # Operators
//
// [Leases.List] tells who holds what, [Leases.RequestResign] asks a holder to let go, and [Leases.Evict] takes the lease from one that
// does not: its guards are refused from then on, and sessions whose guarded transactions are still open are named. A store may lack
// them; its [Capabilities] say so.
//
// # Failure modes
//
// The store cannot be reached: the lease is renewed again and again until its deadline; then the handle's context ends with a
// [*LostError], and [Leases.Run] returns it when the closure has.
//
// The process is stopped, or the machine sleeps: timers fire late, so that a few instructions may run on a context that has
// not ended yet. [Advisory.Check] reads the clocks, also the one that moves while the machine sleeps; call it right before an
// effect. What happens between the check and the effect only a guard closes.
//
// A holder hangs in a guarded transaction: that is what keeps others out, until it ends. Bound it with
// idle_in_transaction_session_timeout, and transaction_timeout on PostgreSQL 17. [Leases.Evict] names the session.
//
// What breaks the guarantees: writes that are guarded by nothing; a name that is not the same for all; changing the table by
// other means (the unique constraint on name and token makes a token that is changed by hand wait for guards as well); a clock of
// the server that steps forward, for what no guard protects, since it ends leases early; an asynchronous standby that is promoted
// without the last acquisitions, for resources outside the database: inside, the nonce of the fence tells two holders of one
// token apart.
//
// # Storage
//
// Table lease has a row for each name that was ever taken; a release leaves it. Table lease_slot has one for each slot, which
// [Job.Sweep] removes with its lease after JobOptions.Keep. [Migrate] makes them, and what keeps tokens rising when
// a row is deleted: a sequence on PostgreSQL, a trigger on SQLite. An expired row costs nothing.
//
//	round trips (pgx)
//	acquire, refuse, release    1
//	renew                       1 for up to 1000 leases of a process
//	guard                       0 in Do, 1 by itself
//	slot of a semaphore, refusal 1
//	list, ask to resign, look    1
//	run of a slot               5, and 4 around the transaction of OnceTx
//	slot that was run before    1
//
// A refused try locks and writes nothing. [Leases.Acquire] asks again with jitter, at the latest after Options.PollEvery, and a
// release in the same process wakes it. Of those who wait for one lease in a process, one asks, the first that came.
//
// Over pgx on PostgreSQL a release in another process wakes it too: who waits leaves word in the row, one statement now and then, and
// a release that finds it notifies, in its own statement. One connection of a process listens while anybody waits; see package
// pgxtx. Nothing depends on it: a notification that is lost costs a pause. Who waits for a semaphore is woken by its own process alone.
//
// Options.Fair has them served in the order in which they came, from table lease_waiter: a try of one who waits is still one round
// trip, and writes when it takes a place or has kept it for half of its time. Who dies while it waits delays those behind it, by four
// PollEvery and 2 s at most.
//
// On SQLite, which has one writer, a take-over waits for the end of a guarded transaction because everybody does. A refused try,
// which writes nothing there either, takes its turn with the writers.
//
// # Settings
//
// Options.TTL is how long a crash keeps others out: 15 s. A lease is renewed at a third of it, so that two renewals in a row may
// fail. Options.AtLeast and Options.HoldLimit bound how short and how long it is held.
//
// # When not to use it
//
// To do something once: an operation that comes again takes a key (package idem). To change rows of one database: lock the rows
// (package pessimistic) or compare their version (package optimistic); that is exact, and waits for no lease of the dead.
package lease
