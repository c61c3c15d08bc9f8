package idem

import (
	"errors"
	"fmt"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
)

// Errors of work that leaves the database.
var (
	// ErrLeaseLost: the execution is no longer that of the key. See [LeaseLostError].
	ErrLeaseLost = errors.New("idem: the lease of the key is lost")
	// ErrNotRecorded: the work was done, and its answer could not be stored before the lease ended. The key stays taken until
	// then, and is never released: the next execution goes on from the steps that are recorded.
	ErrNotRecorded = errors.New("idem: the work was done, but its answer could not be stored: retry with the same key")
	// ErrInTransaction: a transaction is open around the call. It would stay open while the work waits for others.
	ErrInTransaction error = inTransaction{}
	// ErrStep: a step cannot be made. See [StepError].
	ErrStep = errors.New("idem: the step cannot be made")
)

type inTransaction struct{}

func (inTransaction) Error() string {
	return "idem: a transaction is open around work that leaves the database: call it outside, and write in Finish"
}

// Outcome returns NotApplied.
func (inTransaction) Outcome() holdfast.Outcome { return holdfast.NotApplied }

// A LossReason says how a lease was lost.
type LossReason int

const (
	// TakenOver: another execution has the key, or a person has resolved it.
	TakenOver LossReason = iota
	// Unreachable: it could not be renewed in time.
	Unreachable
	// Suspended: this process or its machine slept past the lease.
	Suspended
)

// String says it in words.
func (r LossReason) String() string {
	switch r {
	case TakenOver:
		return "taken over by another execution"
	case Unreachable:
		return "not renewed in time"
	case Suspended:
		return "the machine slept past it"
	}
	return fmt.Sprintf("LossReason(%d)", int(r))
}

// A LeaseLostError ends an execution whose key another may have taken. What it did in a business transaction of [Finish] that
// had not committed is undone; what it did outside is for the next execution to find out, by the steps. It matches
// [ErrLeaseLost], and it is the cause of the context that ends.
type LeaseLostError struct {
	// Name is the operation.
	Name string
	// Epoch is that of the execution.
	Epoch int64
	// Reason is how it was lost.
	Reason LossReason
	// Err is the error of the last renewal, if it failed.
	Err error
}

func (e *LeaseLostError) Error() string {
	text := fmt.Sprintf("%v: operation %q, epoch %d: %v", ErrLeaseLost, e.Name, e.Epoch, e.Reason)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Is matches ErrLeaseLost.
func (e *LeaseLostError) Is(target error) bool { return target == ErrLeaseLost }

// Unwrap returns Err.
func (e *LeaseLostError) Unwrap() error { return e.Err }

// An UnknownError says that nobody knows whether a step took effect: its call failed in a way that proves nothing, or the process
// died in it. The key stays Unknown until a later call, [Leased.Complete] or a person by [Leased.Resolve] has found out. To retry
// with the same key is safe. It matches [ErrOutcomeUnknown].
type UnknownError struct {
	// Name is the operation.
	Name string
	// Note is what is known: the step, and how it failed.
	Note string
	// RetryAfter is in how long it is looked into again. 0 means that it waits for a person.
	RetryAfter time.Duration
	// Err is the error of the work, if this call did any.
	Err error
}

func (e *UnknownError) Error() string {
	text := fmt.Sprintf("idem: nobody knows whether the operation %q was done", e.Name)
	if e.Note != "" {
		text += " (" + e.Note + ")"
	}
	if e.RetryAfter <= 0 {
		return text + ": it waits for a person, see Resolve"
	}
	return fmt.Sprintf("%s: retry with the same key in %v", text, e.RetryAfter.Round(time.Millisecond))
}

// Is matches ErrOutcomeUnknown.
func (e *UnknownError) Is(target error) bool { return target == ErrOutcomeUnknown }

// Unwrap returns Err.
func (e *UnknownError) Unwrap() error { return e.Err }

// Outcome returns Unknown, whatever Err says of itself.
func (e *UnknownError) Outcome() holdfast.Outcome { return holdfast.Unknown }

// A StepError says why a step cannot be made. It was not. It matches [ErrStep].
type StepError struct {
	Step   string
	Reason string
}

func (e *StepError) Error() string { return fmt.Sprintf("%v: %q %s", ErrStep, e.Step, e.Reason) }

// Is matches ErrStep.
func (e *StepError) Is(target error) bool { return target == ErrStep }

// Outcome returns NotApplied.
func (e *StepError) Outcome() holdfast.Outcome { return holdfast.NotApplied }
