// Package redislease keeps leases of package lease in Redis or Valkey.
//
//	store := redislease.New(client, nil) // a *redis.Client or *redis.ClusterClient of go-redis
//	leases := lease.NewAdvisory(store, nil)
//
//	err := leases.Run(ctx, "warm-cache", func(ctx context.Context, h *lease.Advisory) error { … })
//
// What must not happen twice takes the token along, and something that checks it:
//
//	leases := lease.New(store, nil)
//	high := lease.NewHighWater(db, lease.Names{}) // db := pgxtx.New(pool)
//
//	err := leases.Run(ctx, "payout", func(ctx context.Context, h *lease.Held) error {
//		return db.Do(ctx, func(ctx context.Context, t pgx.Tx) error {
//			if err := high.Guard(ctx, t, h.Fence()); err != nil { // first: refused once a later holder has written
//				return err
//			}
//			…
//		})
//	})
//
// # Guarantees
//
//   - One holder at a time, as long as the server keeps what it was told and its clock does not jump forward. That is for
//     efficiency: the guarantee that stands is that of the token.
//   - Tokens of a name rise: across release, expiry and a server that forgot the scripts. They begin at the server's clock in
//     microseconds, and stay above the last one, which a release leaves. So they rise also when the key was deleted or
//     evicted, after FLUSHALL, and after a failover to an empty replica, unless the clock is behind as well; and then still for
//     each process that has seen the last token, which tells the server.
//   - A request that go-redis sends again after its reply was lost gets the answer of the first: an acquisition is granted once
//     with one token, a release says that the lease was held.
//   - Each request is one script and one round trip, once the server knows the script; a refused one writes nothing. A process
//     renews all its leases in one; in a cluster in one pipeline to each node, and a node that is down costs its own leases.
//   - A lease that has run out, and that nobody has taken, is renewed.
//   - Those who wait with lease.Options.Fair are served in the order in which they came, by the server's clock; a [lease.Semaphore] is
//     one script over its slots. The queue of a lease, and the slots of a semaphore, are in the slot of a cluster that it is in.
//   - [Store.RequestResign] and [Store.Evict] are one script each. There is no guard here, so that an eviction waits for nothing, and
//     what its holder does elsewhere is refused by nobody before the next holder has been there.
//   - [Store.List] looks at every key of the database, some thousand with two round trips: it is for operators, and no snapshot.
//   - A request ends at the deadline of its context, also if go-redis does not heed it, and after a cancellation when a reply
//     comes or the client's ReadTimeout is over.
//   - A name may be any text. A lease is in one slot of a cluster, whatever its name.
//
// # Failure modes
//
//   - Failover: replication is asynchronous. A lease that the new primary has not heard of is given to the next who asks, while
//     the holder believes in it until its next renewal is refused: two hold it. The tokens order them. [lease.HighWater] refuses the
//     older one once the later one has written, and not before.
//   - FLUSHALL, DEL, eviction: the same. Places in a queue that are lost are taken again, in another order.
//   - The server stops and starts: leases are there again if it appends to a file. With appendfsync everysec the last second
//     may be lost, which is a failover to a replica that lacks it.
//   - CLIENT PAUSE, a slow script, a network that is silent: a renewal that gets no answer in time costs the lease, whose context
//     ends before anybody else gets it.
//   - A clock that jumps forward ends leases early; one that is set back lets them last longer. Tokens rise all the same.
//   - A replica refuses with READONLY, and the renewal is tried again until the deadline.
//
// # Storage
//
// A string for each lease, under a digest of its name, which stays for [Options].Retention after the last use: some 250 bytes.
// [Store.KeyOf] says where and what. It needs Redis 6.2 or later, or Valkey, and a user that may run evalsha, eval, time, get and
// set; [Store.Check] needs info as well, the list scan, [Store.RequestResign] setrange, and those who wait in turn zadd, zrem, zcard,
// zrank, zscore, zrange, zrangebyscore and pexpire.
//
// # Settings
//
// Set maxmemory-policy to noeviction. Let the client's ReadTimeout be below a third of the lease's TTL, so that a renewal which
// got lost is sent again in time.
//
// # When not to use it
//
// Where there is a database: leases in it have a guard that is exact (see [lease.Do]), and need no second system.
package redislease
