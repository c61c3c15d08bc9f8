package idem

import "fmt"

// A State is that of a key: see the States section of the package. A key that is free has none.
type State int

// States of a row. Another transaction sees a running row only where the work leaves the database; in one commit the row
// is final when it becomes visible.
const (
	stateRunning   = 1
	stateCompleted = 2
	stateFailed    = 3
	stateTombstone = 4 // used, and the answer is gone
	stateUnknown   = 5 // nobody knows what became of a step
	statePending   = 6 // begun, and left to whoever comes next
)

// The states of a key.
const (
	// Running: somebody is at it, or was until its lease ran out.
	Running State = stateRunning
	// Completed: it is done, and has an answer.
	Completed State = stateCompleted
	// Failed: it failed for good, and the failure is its answer.
	Failed State = stateFailed
	// Expired: it was used, and its answer is gone.
	Expired State = stateTombstone
	// Unknown: nobody knows whether a step outside took effect.
	Unknown State = stateUnknown
	// Pending: a part of it is done and recorded, and the rest waits for the next call.
	Pending State = statePending
)

// String says it in a word.
func (s State) String() string {
	switch s {
	case Running:
		return "running"
	case Completed:
		return "completed"
	case Failed:
		return "failed"
	case Expired:
		return "expired"
	case Unknown:
		return "unknown"
	case Pending:
		return "pending"
	}
	return fmt.Sprintf("State(%d)", int(s))
}

// open reports whether the operation has begun and has not come to an end.
func (s State) open() bool { return s == Running || s == Unknown || s == Pending }
