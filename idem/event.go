package idem

import (
	"context"

	holdfast "github.com/holdfast-go/holdfast"
)

// Events of [Keys]. Name is the operation, Key a digest of the key.
const (
	// EventClaimed: the operation is about to run.
	EventClaimed holdfast.EventKind = "idem.claimed"
	// EventCompleted: it ran, and its answer is committed. In a transaction of the caller's, it is as good as the
	// caller's commit.
	EventCompleted holdfast.EventKind = "idem.completed"
	// EventFailed: it ran, and its failure is the stored answer. Err is the failure.
	EventFailed holdfast.EventKind = "idem.failed"
	// EventReleased: the key is free. It ran and returned an error that is no answer, which is Err, or its failure was
	// taken back by [Keys.Release], and Err is nil.
	EventReleased holdfast.EventKind = "idem.released"
	// EventReplayed: a repetition got the stored answer. Err is set if it could not be opened.
	EventReplayed holdfast.EventKind = "idem.replayed"
	// EventInFlight: a duplicate was refused while the first was running.
	EventInFlight holdfast.EventKind = "idem.in_flight"
	// EventMismatch: the key came with another request.
	EventMismatch holdfast.EventKind = "idem.mismatch"
	// EventExpired: an expired key was refused.
	EventExpired holdfast.EventKind = "idem.expired"
	// EventUnknown: the outcome of the commit is unknown. Err is why.
	EventUnknown holdfast.EventKind = "idem.unknown"
	// EventDeleted: the answer was forgotten by [Keys.Delete].
	EventDeleted holdfast.EventKind = "idem.deleted"
	// EventErased: the keys of a scope were removed. Count is how many, Name the table, Key a digest of the scope, Err why
	// some may be left.
	EventErased holdfast.EventKind = "idem.erased"
	// EventSwept: expired rows were removed. Count is how many, Name the table.
	EventSwept holdfast.EventKind = "idem.swept"
)

// Events of [Inbox]. Name is the consumer; Key is the message ID, or empty where Count messages are meant.
const (
	// EventReceived: messages are new, and about to be handled.
	EventReceived holdfast.EventKind = "idem.received"
	// EventDuplicate: messages had been handled before.
	EventDuplicate holdfast.EventKind = "idem.duplicate"
)

func (k *Keys[T]) observe(ctx context.Context, kind holdfast.EventKind, c *call, err error) {
	if k.o.Observer == nil {
		return
	}
	holdfast.Observe(ctx, k.o.Observer, holdfast.Event{Kind: kind, Name: c.key.Name, Key: c.digest.short(), Attempt: c.attempt, Err: err})
}
