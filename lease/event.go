package lease

import holdfast "github.com/holdfast-go/holdfast"

// Kinds of events. Name is the lease, Key its token. Leases in a database tell of [tx.EventPolling], too.
const (
	// EventAcquired: a lease was taken. Elapsed is how long the caller waited for it, Attempt counts its tries.
	EventAcquired holdfast.EventKind = "lease.acquired"
	// EventRefused: a lease was not taken, since somebody else has it. Err is a [HeldError]; Elapsed and Attempt as above.
	EventRefused holdfast.EventKind = "lease.refused"
	// EventHandOver: a lease for which the caller waited passed to it from another holder. Err is the [HeldError] of the last try
	// before, and Elapsed the time since then: nobody had the lease for longer. EventAcquired is told as well.
	EventHandOver holdfast.EventKind = "lease.hand_over"
	// EventRenewFailed: a renewal failed and is tried again while there is time. Attempt counts failures in a row.
	EventRenewFailed holdfast.EventKind = "lease.renew_failed"
	// EventLost: a lease was lost. Err is a [LostError].
	EventLost holdfast.EventKind = "lease.lost"
	// EventResign: the holder is asked to let go. It is told once, by the holder.
	EventResign holdfast.EventKind = "lease.resign"
	// EventEvicted: an operator took a lease from its holder, whose token Key is. Err is a [BlockedError] if nobody else can have
	// it yet.
	EventEvicted holdfast.EventKind = "lease.evicted"
	// EventReleased: a lease was released. Elapsed is how long it was held. Err is set if it was lost before, or nobody knows.
	EventReleased holdfast.EventKind = "lease.released"
	// EventFenced: [Do] refused. A fence by itself has no observer. Err is a [FencedError], or a
	// [SnapshotError].
	EventFenced holdfast.EventKind = "lease.fenced"
)
