// Package rediscounter counts in Redis such that a lost reply never counts twice.
//
//	counters := rediscounter.New(client, nil) // a *redis.Client or *redis.ClusterClient of go-redis
//	views, err := counters.Add(ctx, "page:42", 1, "")
//	left, err := counters.Take(ctx, "tickets", 2, orderID)
//
// # Guarantees
//
//   - An operation counts at most once while its ledger entry is kept, under go-redis' retries too: a plain Incr is sent
//     again after a read timeout, and counts again. The same operation ID gets the first result.
//   - [Counters.Take] never goes below zero and never takes a part.
//   - The expiry is set by the script that sets the value. One that was lost otherwise is repaired by the next change.
//   - An overflow of int64 is refused, and nothing changes. Values beyond 2^53 are exact.
//   - A counter and its ledger are in one slot of a cluster, whatever the name.
//
// # Failure modes
//
//   - No reply: the outcome is unknown. The same call with the same operation ID finds out. An empty ID is made up for one
//     call, so it covers the client's own retries and no more.
//   - Failover: replication is asynchronous. Acknowledged changes can be lost, with their ledger entries; and so can a crash
//     without appendfsync always lose them. Redis is no place for money.
//   - Eviction: a policy that evicts ledger entries lets an operation count again. Use noeviction.
//
// # Storage
//
// One string for each counter and one for each operation, which expires after [Options].Retention. Names are stored as
// digests. It needs Redis 6.2 or later, or Valkey.
//
// # Settings
//
// Choose Retention longer than the longest path on which a retry can come.
//
// # When not to use it
//
// For what must survive a failover: count in the database.
package rediscounter
