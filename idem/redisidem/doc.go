// Package redisidem keeps idempotency keys of package idem in Redis or Valkey, for work that leaves the database.
//
//	store := redisidem.New(client, nil) // a *redis.Client or *redis.ClusterClient of go-redis
//	keys := idem.NewLeasedOn(store, nil)
//
//	key := idem.Key{Scope: tenant, Name: "charge", Value: r.Header.Get("Idempotency-Key"), Fingerprint: idem.FingerprintOf(body)}
//	res, err := idem.DoLeased(ctx, keys, key, func(ctx context.Context, run *idem.Run) (Receipt, error) {
//		paid, err := idem.Step(ctx, run, idem.External[Charge]{Name: "charge", Call: provider.Charge, Reconcile: provider.Find})
//		…
//	})
//
// The closure gets an [idem.Run], which has no Finish and no Guard: a key in Redis joins no SQL transaction. What must be committed
// with the answer belongs to keys in the database, see [idem.NewLeased]. A resource that is handed [idem.Run.Epoch] can refuse an
// execution of the past.
//
// # Guarantees
//
//   - All that package idem promises of work that leaves the database, but for its business transactions, as long as the server keeps
//     what it was told. It passes the same suite, idemtest.RunStore.
//   - Each transition is one script: it happens as a whole, or not at all. Nonce, epoch and state decide whether it may, by text and
//     not as numbers; time decides on takeover alone, and is the server's.
//   - A request that go-redis sends again after its reply was lost gets the answer of the first, and changes nothing. A claim that
//     arrives when its key has been made free, or given back by who got no reply to it, takes nothing.
//   - Epochs of a key rise across takeover, release and reuse. They begin at the server's clock in microseconds, and stay above the
//     last one, which a key that is made free leaves for [Options].Retention. So they rise also when the key was deleted or its tombstone
//     has gone, after FLUSHALL, and after a failover to an empty replica, unless the clock is behind as well; and then still for each
//     process that has seen the last epoch, which tells the server.
//   - Lease and life are two things. A key that is open, which is running, unknown or pending, does not expire. An answer does, and its
//     key some time after it: see [Options].Tombstone. Nobody has to sweep.
//   - A claim, a step's beginning, a step's result, an answer, a replay, a release: one round trip each, once the server knows the
//     script. A replay and a refusal write nothing. 1 000 leases are renewed in one, in a cluster in one to each node. A look for what is
//     due is one, and one more takes it.
//   - Who waits for a key in another process is woken when its execution ends, over one connection for all who wait in a process. A
//     message is sent where somebody has announced to wait, and nowhere else.
//   - A request ends at the deadline of its context, also if go-redis does not heed it, and after a cancellation when a reply
//     comes or the client's ReadTimeout is over.
//   - When the memory is full a claim is refused, and answers are stored all the same.
//
// # Failure modes
//
//   - Failover: replication is asynchronous. What the new primary has not heard of never happened: an operation whose claim is lost runs
//     again for the next who asks, at the same time as the first if that is still at it; one whose answer is lost runs again; of one
//     whose step is lost the step is made again, or looked for by its Reconcile if its beginning was not lost. The first execution
//     finds out at its next request. Every try has the same child key, so that a service which honours it has one effect all the
//     same; for any other, Redis is no place for the key.
//   - FLUSHALL, DEL, eviction: the same.
//   - The server stops and starts: keys are there again if it appends to a file. With appendfsync everysec the last second may be
//     lost, which is a failover to a replica that lacks it.
//   - CLIENT PAUSE, a slow script, a network that is silent: renewals that get no answer in time cost the lease, whose context ends
//     before anybody else gets the key. A node of a cluster that is silent holds up the renewals of the others as long as the client
//     waits for it.
//   - A node of a cluster that is down costs its own keys. A slot that moves to another node refuses with TRYAGAIN until it has arrived.
//   - A clock that jumps forward ends leases early; one that is set back lets them last longer. Epochs rise all the same.
//   - A replica refuses with READONLY.
//
// # Storage
//
// A hash for each key, under its ID, some 500 bytes, and while it has an answer a string with the body of that: [Store.KeyOf] says where,
// lua/key.lua what. They are in 64 parts, each in one slot of a cluster, with two sorted sets of what is open: those with an input,
// which [idem.Leased.Complete] finds in the order in which they became due, and the others. A list of open keys reads these sets as a
// whole, and the records of its page; a list of all is a scan of everything that the servers have. To remove what is kept of a tenant,
// delete what the list by scope shows.
//
// It needs Redis 6.2 or later, or Valkey 7.2, and a user that may run evalsha, eval, time, hmget, hset, hincrby, hexists, hdel, get, set,
// del, pexpire, zadd, zrem, zrange and zrangebyscore; publish, subscribe and unsubscribe for [Store.Channel] and
// holdfast_echo_*, to wake who waits, who otherwise looks now and then; scan for lists of all; info for
// [Store.Check].
//
// # Settings
//
// Set maxmemory-policy to noeviction: Check refuses any other, also those that evict only keys with an expiry, since answers have
// one. Let the client's ReadTimeout be below a fifth of the lease, so that a renewal which got lost is sent again in time. Choose
// LeaseOptions.TTL as for keys in a database.
//
// # When not to use it
//
// Where there is a database: keys in it are there as long as what they protect, and their answer is in the same commit. Where an effect
// must not happen twice, and whoever makes it does not honour the child key.
package redisidem
