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
	// EventUnknown: the outcome is unknown, of the commit, or of a step outside. Err is why.
	EventUnknown holdfast.EventKind = "idem.unknown"
	// EventDeleted: the answer was forgotten by [Keys.Delete].
	EventDeleted holdfast.EventKind = "idem.deleted"
	// EventErased: the keys of a scope were removed. Count is how many, Name the table, Key a digest of the scope, Err why
	// some may be left.
	EventErased holdfast.EventKind = "idem.erased"
	// EventSwept: expired rows were removed. Count is how many, Name the table.
	EventSwept holdfast.EventKind = "idem.swept"
)

// Events of [Leased], beside those above. Attempt counts the executions of the key. Of a step, Name is "operation/step".
const (
	// EventTakenOver: the operation is about to run once more, after an execution that did not end, or was given up.
	EventTakenOver holdfast.EventKind = "idem.taken_over"
	// EventRenewFailed: a lease could not be renewed, and will be tried again. Attempt counts the failures in a row.
	EventRenewFailed holdfast.EventKind = "idem.renew_failed"
	// EventLost: the execution lost its lease. Err is a [*LeaseLostError].
	EventLost holdfast.EventKind = "idem.lost"
	// EventStepStarted: a step is about to be made.
	EventStepStarted holdfast.EventKind = "idem.step_started"
	// EventStepSaved: its result is recorded. Err is set if it was refused, so that nothing was done.
	EventStepSaved holdfast.EventKind = "idem.step_saved"
	// EventReconciled: a step that had begun before was looked for. Err is set if nobody could tell.
	EventReconciled holdfast.EventKind = "idem.reconciled"
	// EventPending: the key was given up, and what is recorded of it kept. Err is why.
	EventPending holdfast.EventKind = "idem.pending"
	// EventNotRecorded: the work was done, and its answer could not be stored. Err is why.
	EventNotRecorded holdfast.EventKind = "idem.not_recorded"
	// EventResolved: a person has decided. Err is a [*ResolvedError], which says who and how.
	EventResolved holdfast.EventKind = "idem.resolved"
)

// Events of [Inbox]. Name is the consumer; Key is the message ID, or empty where Count messages are meant.
const (
	// EventReceived: messages are new, and about to be handled.
	EventReceived holdfast.EventKind = "idem.received"
	// EventDuplicate: messages had been handled before.
	EventDuplicate holdfast.EventKind = "idem.duplicate"
)

func (k *core) observe(ctx context.Context, kind holdfast.EventKind, c *call, err error) {
	if k.o.Observer == nil {
		return
	}
	holdfast.Observe(ctx, k.o.Observer, holdfast.Event{Kind: kind, Name: c.key.Name, Key: c.digest.short(), Attempt: c.attempt, Err: err})
}
