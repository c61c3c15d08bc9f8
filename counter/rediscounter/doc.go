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
//   - A change is one round trip, once the server knows the script.
//
// # Failure modes
//
//   - No reply: the outcome is unknown. The same call with the same operation ID finds out. An empty ID is made up for one
//     call and remembered for ten minutes, so it covers the client's own retries and no more.
//   - Refusals such as READONLY, OOM or LOADING tell of the last attempt alone, and go-redis does not say how many there
//     were. The outcome is unknown, unless the client is a *redis.Client with MaxRetries -1. The same holds for a failed dial.
//   - A refused Take tells of the attempt that was answered. An earlier one that is still on its way can yet take what comes
//     in before it arrives. The same call with the same operation ID finds out.
//   - Failover: replication is asynchronous. Acknowledged changes can be lost, and their ledger entries with them. A crash
//     loses what was not yet on disk; nothing acknowledged is lost with appendfsync always. Redis is no place for money.
//   - A slot that moves to another node of a cluster: an operation that is new is refused with TRYAGAIN until it has arrived.
//   - Eviction: a policy that evicts ledger entries lets an operation count again. Use noeviction.
//
// # Storage
//
// One string for each counter, and one for each operation, some 250 bytes that expire after [Options].Retention. Names and
// operation IDs are stored as digests. It needs Redis 6.2 or later, or Valkey, and a user that may run evalsha, eval, get,
// set, exists, incrby, decrby, pttl and pexpire.
//
// # Settings
//
// Choose Retention longer than the longest path on which a retry can come. For a count of each hour, put the hour into the name,
// and let TTL be longer than it: the hour is then what the caller says, and not what a server's clock makes of it.
//
// # When not to use it
//
// For what must survive a failover: count in the database. For several counters at once, all or nothing: each has a slot of
// its own in a cluster, and a script has one.
package rediscounter
