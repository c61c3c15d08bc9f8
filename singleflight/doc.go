// Package singleflight lets concurrent callers of one key share one call, and keeps what it came to without ever keeping what
// was invalidated meanwhile.
//
//	users := singleflight.NewCache(func(ctx context.Context, id int64) (User, error) { return load(ctx, id) }, nil)
//	user, err := users.Get(ctx, 42)
//	users.Invalidate(42) // after the commit that changed it: in a closure of tx.DB.Do, tx.AfterCommit does it then
//
//	var group singleflight.Group[string, Report] // without a cache
//	report, err := group.Do(ctx, "2026-01", build)
//
// # Guarantees
//
//   - One call of a key runs at a time, unless it was invalidated or left by all its callers.
//   - Each caller waits on its own context. One that gives up takes nobody along; when the last one has, the context of the
//     function ends.
//   - A panic is an error with its stack for each caller, Goexit an error too: never a hang, a crash or a zero value.
//   - A caller that comes after a call has ended begins a new one.
//   - A function that asks for its own key, directly or through others that it waits for, is told [ErrNested].
//   - The function has the values of the first caller's context, but is not in its transaction: what is shared is committed.
//   - After [Group.Invalidate] or [Cache.Invalidate] has returned, nobody who calls gets what was loaded before it, and it is not
//     in the cache. Who waited before may get it.
//   - A [Cache] has at most CacheOptions.MaxEntries entries. It has no goroutine but those of loads.
//
// # What it adds to x/sync
//
// golang.org/x/sync/singleflight is right where a caller cannot give up, nothing is cached and panics may end the process. Here
// each caller has a context of its own, and the call outlives that of the first: with x/sync a first caller who is cancelled
// fails all. Its DoChan ends the process when the function panics, and its Forget keeps callers apart, but not what they store.
// Ours is typed, and keys are spread over locks. It is not built on x/sync, whose calls cannot be left or fenced.
//
// # Failure modes
//
//   - A function that ignores its context goes on after all have left, and another may begin beside it. A refresh in the background
//     that hangs counts as left when its value is over.
//   - Invalidate before the commit: a load between the two stores what is old, until the TTL. So does a crash between commit and
//     Invalidate, and a load that reads from a replica that lags.
//   - Two functions that wait for each other, each called by somebody else, wait until their callers give up; so does one that asks
//     for its own key with a context that is not its own.
//   - A load within a transaction of tx.DB.Do takes another connection: from a pool that has one left, and on SQLite only to read
//     outside a transaction. Ask before it begins.
//   - Other processes: their caches do not hear of Invalidate. See package singleflight/redisflight, or choose a short TTL.
//   - Acting on a value from a cache: it may be out of date when it is used. Put the condition into the write; see
//     examples/toctou.
//   - Effects: two processes, or a call that was left, run the function twice. Use package idem for what must happen once.
//
// # Storage
//
// Memory of the process.
//
// # Settings
//
// TTL bounds how old a value is that nobody invalidated, counted from the beginning of its load. With SoftTTL callers of a key that is in use never wait, and with
// StaleIfError they outlast a source that is away: for a second after a failed load, whoever can be served does not wait for
// another. Values near their end are refreshed early by chance, which is XFetch. NotFoundTTL keeps keys that do not exist from
// being loaded by each caller. Share no value that callers change: set Clone.
//
// # When not to use it
//
// For work whose result is one caller's own, or that must not be shared across users: the key has to tell them apart. For writes.
package singleflight
