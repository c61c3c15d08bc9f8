// Package redisflight is a cache in Redis whose misses load once across all processes, and which does not store what was
// invalidated while it was being loaded.
//
//	// client is a *redis.Client or *redis.ClusterClient of go-redis; each cache has a prefix of its own
//	users := redisflight.New(client, loadUser, &redisflight.Options[User]{Prefix: "users:"})
//	user, err := users.Get(ctx, "42")
//	err = users.Invalidate(ctx, "42") // after the commit that changed it
//
// A miss takes a lease on the key, as in "Scaling Memcache at Facebook", NSDI 2013. Only the holder of its token may store, and
// to invalidate deletes value and lease.
//
// # Guarantees
//
//   - While Redis answers, one process loads a key at a time, for all callers; the others wait for what it stores.
//   - What was being loaded when [Cache.Invalidate] ran is never stored, in whichever process. A flight whose fill is refused loads
//     again: its callers get what is newer. In the process that invalidated, nobody who calls after it gets what is older; in
//     others, only who joins a flight whose last reply is already on its way.
//   - A process that dies while it loads is replaced within [Options].OwnerTimeout, whatever the TTL. A load that panics, fails
//     or is left by all its callers gives the lease back at once, also if it ignores its context and goes on.
//   - A load may take longer than OwnerTimeout: the lease is renewed. A process that was paused beyond it has its fill refused.
//   - No value can be taken for a lease, whatever its bytes: they are in different keys, and values in an envelope.
//   - A load that asks for its own key is told singleflight.ErrNested.
//   - While Redis is away, loads happen, once at a time in each process, and nothing is stored.
//   - A hit is one round trip, a miss two and the load.
//
// # Failure modes
//
//   - Lost replies: the scripts may run again. A lease that is the caller's own is granted, a value that is its own is stored.
//   - [Cache.Invalidate] returns an error: the value may stay until its TTL. Call it again, or keep the TTL short.
//   - Failover: replication is asynchronous. A promoted replica may know a value that was invalidated, until its TTL, or not know
//     a lease, so that two processes load.
//   - A slot of a cluster that moves: until it has moved, each process loads its keys without Redis. What is invalidated meanwhile is.
//   - A load that fails is tried by each process that waits, one after the other.
//   - Redis slower than [Options].Timeout: the load goes on without it, in each process.
//
// # Storage
//
// One string for each key that is cached, with a header of 28 bytes, and one for each that is being loaded. Both have an expiry
// and one slot of a cluster. It needs Redis 6.2 or later, or Valkey, and a user that may run evalsha, eval, get, set, del and
// pexpire. Replicas must not answer reads.
//
// # Settings
//
// OwnerTimeout is longer than a pause of a process that should not count as dead. TTL bounds how old a value is that nobody
// invalidated, counted from the beginning of its load. For a second level in memory, give a singleflight.Cache with a short TTL the method Get: invalidations reach the
// memory of the own process only.
//
// # When not to use it
//
// For what must happen once: it is best effort, so use package idem. To decide a write: the value may be out of date when it is
// used.
package redisflight
