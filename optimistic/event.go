package optimistic

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	holdfast "github.com/holdfast-go/holdfast"
)

// Events of [Rows]. Name is the table, Key a digest of the row's key, Attempt that of [Rows.Update].
const (
	// EventConflict: a write was refused, since the row has another version. Err is the [*ConflictError]. Count is how many,
	// for a batch.
	EventConflict holdfast.EventKind = "optimistic.conflict"
	// EventSelfConflict: the row has another version because the very same operation changed it before. It counts as done.
	EventSelfConflict holdfast.EventKind = "optimistic.self_conflict"
	// EventFellOver: after the losses that Options.LockAfter allows, or because others had them on this row just now, Update
	// locks the row before it reads.
	EventFellOver holdfast.EventKind = "optimistic.fell_over"
	// EventContended: Update gave up. Err is the [*ContendedError].
	EventContended holdfast.EventKind = "optimistic.contended"
)

func (r *Rows[T]) observe(ctx context.Context, kind holdfast.EventKind, key any, err error) {
	if r.o.Observer == nil {
		return
	}
	sum := sha256.Sum256([]byte(nameOf(key)))
	holdfast.Observe(ctx, r.o.Observer, holdfast.Event{
		Kind: kind, Name: r.table.Name, Key: hex.EncodeToString(sum[:8]), Attempt: Attempt(ctx), Count: 1, Err: err,
	})
}
