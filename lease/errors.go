package lease

import (
	"errors"
	"fmt"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
)

var (
	// ErrHeld: somebody else has the lease.
	ErrHeld = errors.New("lease: it is held by somebody else")
	// ErrLost: the lease is no longer the caller's.
	ErrLost = errors.New("lease: it was lost")
	// ErrReleased is the cause of a handle's context after its release.
	ErrReleased = errors.New("lease: it was released")
	// ErrResign is the cause of a handle's context when its holder is asked to let go. The lease is held until its release.
	ErrResign = errors.New("lease: its holder is asked to resign")
	// ErrFenced: a guard refused, since the lease was taken by somebody else.
	ErrFenced = errors.New("lease: fenced off: the lease has another holder")
	// ErrSnapshot: a guard refused, since the transaction began before the lease was acquired, and cannot see that it was.
	ErrSnapshot = errors.New("lease: the transaction is older than the acquisition: acquire the lease, and begin the transaction then")
	// ErrNested: the context is under the lease already: its holder would wait for itself.
	ErrNested = errors.New("lease: it is held by the caller already: pass the handle down")
	// ErrNoGuard: the lease is in no database, such as one of package redislease, or in one of another kind than the transaction.
	ErrNoGuard = errors.New("lease: the lease is not in the database of the transaction: guard that with HighWater")
	// ErrFree: nobody holds the lease.
	ErrFree = errors.New("lease: nobody holds it")
	// ErrBlocked: transactions that the lease guards are still open, and keep it from others.
	ErrBlocked = errors.New("lease: a transaction that it guards is still open")
	// ErrUnsupported: the store does not have what the call needs.
	ErrUnsupported = errors.New("lease: the store cannot do that")
	// ErrInvalid: an argument or an option cannot be used.
	ErrInvalid = errors.New("lease: it cannot be used")
)

// An InputError says what is wrong with an argument or an option. It matches [ErrInvalid].
type InputError struct {
	// Name is the argument or the option.
	Name string
	// Reason is what is wrong with it, and how to mend it.
	Reason string
}

// Error names what is wrong.
func (e *InputError) Error() string { return fmt.Sprintf("lease: %s %s", e.Name, e.Reason) }

// Is matches ErrInvalid.
func (e *InputError) Is(target error) bool { return target == ErrInvalid }

// Outcome is NotApplied: nothing was sent.
func (e *InputError) Outcome() holdfast.Outcome { return holdfast.NotApplied }

// An UnsupportedError says what the store cannot do. Its Capabilities tell beforehand. It matches [ErrUnsupported].
type UnsupportedError struct {
	// Verb is the method that was called.
	Verb string
}

// Error names the method.
func (e *UnsupportedError) Error() string {
	return "lease: the store has no " + e.Verb + ": look at its Capabilities"
}

// Is matches ErrUnsupported.
func (e *UnsupportedError) Is(target error) bool { return target == ErrUnsupported }

// Outcome is NotApplied: nothing was sent.
func (e *UnsupportedError) Outcome() holdfast.Outcome { return holdfast.NotApplied }

// A HeldError says who has the lease. It matches [ErrHeld].
type HeldError struct {
	// Name is the lease, Holder and Meta are what its holder said of itself.
	Name, Holder, Meta string
	// Token is the holder's.
	Token int64
	// Remaining is how long the lease runs if it is not renewed, a hint. At 0 or less it has run out, or was released: somebody
	// else takes it at this moment, and is not known yet, or a transaction that it guards is still open.
	Remaining time.Duration
	// Ahead is how many wait in turn ahead of the caller, of leases with Options.Fair. The lease may be free then, and is theirs.
	Ahead int
}

// Error names the holder.
func (e *HeldError) Error() string {
	by := ""
	if e.Holder != "" {
		by = fmt.Sprintf(" by %q", e.Holder)
	}
	switch {
	case e.Token == 0:
		return fmt.Sprintf("lease: %q is being taken by somebody else at this moment", e.Name)
	case e.Remaining <= 0:
		return fmt.Sprintf("lease: %q is being taken by somebody else, or a transaction that it guards%s is still open", e.Name, by)
	}
	return fmt.Sprintf("lease: %q is held%s for %v more", e.Name, by, e.Remaining.Round(time.Millisecond))
}

// Is matches ErrHeld.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// Outcome is NotApplied: the lease was not taken.
func (e *HeldError) Outcome() holdfast.Outcome { return holdfast.NotApplied }

// A Reason is why a lease was lost.
type Reason string

const (
	// Stolen: the store says that somebody has taken or evicted it.
	Stolen Reason = "it was taken by somebody else"
	// Unreachable: it could not be renewed before it ran out.
	Unreachable Reason = "it could not be renewed in time"
	// Suspended: the machine slept, or the process stood still, past its end.
	Suspended Reason = "the process stood still past its end"
	// HoldLimit: it was held as long as Options.HoldLimit allows.
	HoldLimit Reason = "it was held as long as Options.HoldLimit allows"
)

// A LostError says why a lease was lost. It is the cause of the handle's context, and matches [ErrLost].
type LostError struct {
	// Name is the lease, Token that of the acquisition which was lost.
	Name  string
	Token int64
	// Reason is why.
	Reason Reason
	// Err is the error of the last renewal, if that is why.
	Err error
}

// Error says why.
func (e *LostError) Error() string {
	text := fmt.Sprintf("lease: %q was lost: %s", e.Name, e.Reason)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Is matches ErrLost.
func (e *LostError) Is(target error) bool { return target == ErrLost }

// Unwrap returns Err.
func (e *LostError) Unwrap() error { return e.Err }

// Outcome is Unknown: neither the loss nor Err, which is of a renewal, says anything about the work.
func (e *LostError) Outcome() holdfast.Outcome { return holdfast.Unknown }

// A FencedError is the refusal of a guard. It matches [ErrFenced].
type FencedError struct {
	// Fence is the one that was refused.
	Fence Fence
	// Token is that of the holder who has written since, if it is known.
	Token int64
}

// Error names the lease and the tokens.
func (e *FencedError) Error() string {
	text := fmt.Sprintf("lease: fenced off: token %d of %q is not the holder's in this database", e.Fence.Token, e.Fence.Name)
	if e.Token != 0 {
		text += fmt.Sprintf(", which is %d", e.Token)
	}
	return text
}

// Is matches ErrFenced.
func (e *FencedError) Is(target error) bool { return target == ErrFenced }

// Outcome is NotApplied: the guard refused before the work, or rolled it back.
func (e *FencedError) Outcome() holdfast.Outcome { return holdfast.NotApplied }

// A SnapshotError is the refusal of a guard in a transaction at REPEATABLE READ or SERIALIZABLE that began before the lease was
// acquired: it sees the lease as it was then. The lease may well be held. The same is told, in such a transaction, of an acquisition
// that a failover has lost. It matches [ErrSnapshot], and not [ErrFenced].
type SnapshotError struct {
	// Fence is the one that was refused.
	Fence Fence
}

// Error names the lease and the token, and how to mend it.
func (e *SnapshotError) Error() string {
	return fmt.Sprintf("lease: the transaction cannot see token %d of %q, since it is older than the acquisition: "+
		"acquire the lease, and begin the transaction then", e.Fence.Token, e.Fence.Name)
}

// Is matches ErrSnapshot.
func (e *SnapshotError) Is(target error) bool { return target == ErrSnapshot }

// Outcome is NotApplied: the guard refused before the work, or rolled it back.
func (e *SnapshotError) Outcome() holdfast.Outcome { return holdfast.NotApplied }
