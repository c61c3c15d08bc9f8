package lease

import (
	"context"
	"time"
)

// A Store keeps leases where all contenders see them. Expiry is judged by the store's clock alone. Each method is one request,
// bounded by its context, and safe for concurrent use. Package leasetest says what a store must do, and checks it.
type Store interface {
	// TryAcquire takes the lease that c names if nobody holds it, and otherwise tells who does. It changes nothing if the
	// lease is held. A second request with the nonce of the holder is granted again, with the same token.
	TryAcquire(ctx context.Context, c Claim) (Grant, error)
	// Renew lets each of terms run for its TTL from now on, to the end of its Claim.AtLeast at least, and returns what became of
	// them, in their order. A term that is no longer held is told as lost and never acquired again.
	Renew(ctx context.Context, terms []Term) ([]Renewal, error)
	// Release frees a lease, no earlier than at its Claim.AtLeast, and reports whether the term still held it.
	Release(ctx context.Context, t Term) (held bool, err error)
	// Capabilities are what the store can promise.
	Capabilities() Capabilities
}

// A FencingStore is a [Store] whose tokens order the holders of a name: each acquisition has a token above those of all
// acquisitions before it.
type FencingStore interface {
	Store
	// Fence returns the fence of a grant, with the guard of the store if it has one.
	Fence(g Grant) Fence
}

// A Claim asks for a lease.
type Claim struct {
	// Name is the lease, Holder says who asks, Meta is what the holder has to say. All but the name may be empty.
	Name, Holder, Meta string
	// Nonce tells this acquisition from all others.
	Nonce string
	// TTL is how long the lease lasts if it is not renewed.
	TTL time.Duration
	// AtLeast is how long the lease stays taken at least, also if it is released before, or its holder dies.
	AtLeast time.Duration
}

// A Grant answers a [Claim].
type Grant struct {
	// Held tells that the lease is the claimer's.
	Held bool
	// Name is the lease, Token and Nonce are those of the acquisition. Of a lease that somebody else has, Token is theirs and
	// Nonce is empty.
	Name  string
	Token int64
	Nonce string
	// Holder, Meta and Remaining describe the lease that somebody else has. Remaining may be 0 or less: the lease has run out,
	// and a transaction that it guards is still open. They are hints.
	Holder, Meta string
	Remaining    time.Duration
	// Ahead is how many wait ahead of the claimer, if they wait in turn.
	Ahead int
}

// A Term is one acquisition, as it is renewed and released.
type Term struct {
	Name  string
	Token int64
	Nonce string
	TTL   time.Duration
}

// A Renewal is what became of a [Term].
type Renewal struct {
	// Held tells that it goes on. Otherwise somebody has taken, released or evicted it.
	Held bool
	// Resign tells that the holder is asked to let go.
	Resign bool
	// Err is why nobody knows, if that is so for this term and not for all. Held and Resign mean nothing then.
	Err error
}

// Durability says whether something outlives a fault of the store.
type Durability int

const (
	// No: it does not.
	No Durability = iota
	// IfSynchronous: if every acquisition reached the standby before it was answered.
	IfSynchronous
	// IfClockRises: if the clock of the new primary is not behind that of the old.
	IfClockRises
	// Yes: it does.
	Yes
)

// Capabilities are the promises in which stores differ. The conformance suite asserts them.
type Capabilities struct {
	// Fencing: tokens rise with every acquisition of a name, across expiry and release.
	Fencing bool
	// ExactGuard: a guard in a transaction of the same database keeps the lease from being taken until that transaction ends.
	ExactGuard bool
	// TokenSurvivesDeletion: tokens go on rising after what the store keeps of a lease was deleted.
	TokenSurvivesDeletion Durability
	// TokenSurvivesFailover: tokens go on rising after a failover to a standby.
	TokenSurvivesFailover Durability
	// HoldSurvivesFailover: a lease has no second holder after a failover to a standby. Otherwise its token alone tells them
	// apart.
	HoldSurvivesFailover Durability
	// RenewsExpired: a lease that ran out and that nobody has taken since can be renewed.
	RenewsExpired bool
	// Lists, Resigns, Evicts, Queues and Chooses: the store is a [Lister], a [Resigner], an [Evicter], a [Queuer], a [Chooser].
	Lists, Resigns, Evicts, Queues, Chooses bool
}
