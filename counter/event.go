package counter

import holdfast "github.com/holdfast-go/holdfast"

// Events. Name is the table, or the column, and Key the counter.
const (
	// EventBatch: calls shared a commit. Count is how many, Elapsed how long it took, Err why it failed.
	EventBatch holdfast.EventKind = "counter.batch"
	// EventInsufficient: a call was refused. Count is what there was.
	EventInsufficient holdfast.EventKind = "counter.insufficient"
	// EventReplayed: an operation had been applied, and was not again.
	EventReplayed holdfast.EventKind = "counter.replayed"
	// EventResized: the number of slots was set. Count is the number.
	EventResized holdfast.EventKind = "counter.resized"
	// EventSwept: expired operations were removed. Count is how many.
	EventSwept holdfast.EventKind = "counter.swept"
)
