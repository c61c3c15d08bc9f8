// Package holdfast is the shared vocabulary of the Holdfast packages, concurrency and idempotency primitives that work
// in the caller's own database and in the caller's own transaction. Import the package of the pattern that you need:
//
//   - tx: one transaction contract over pgx and database/sql: whole-closure retry, typed outcomes, migrations
//   - idem: idempotency keys and the inbox, in the transaction of the work that they protect
//   - idem/idemhttp: the same as net/http middleware
//   - optimistic: version columns: a write is refused if the row was changed since it was read
//   - pessimistic: row locks over tables in one order, claims for queues, advisory locks
//   - counter: counters and stocks that lose no unit and sell none twice
//   - counter/rediscounter: counters in Redis that a lost reply does not move twice
//   - lease: leases with fencing tokens, whose loss is noticed in time, leader election, and jobs that run once a slot
//   - retry, retry/retryhttp: operations are tried again where that does no harm
//   - singleflight: one call for all who want it at the same time, and a cache that stores nothing stale
//   - singleflight/redisflight: the same across processes
//   - prove: a kit for tests that proves a handler of one's own idempotent, at every point of failure
//
// This package holds what they share and imports the standard library alone:
//
//   - [Outcome] and [OutcomeOf]: whether an effect happened, did not happen, or nobody knows
//   - [Observer] and [Event]: what a package tells of every duplicate, conflict, retry and loss
//   - [WithCorrelationID]: the ID that ties the events and attempts of one request together
//   - [ExternalCall]: refuses to leave the database while the transaction around it holds locks
package holdfast
