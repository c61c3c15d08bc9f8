package lease

import (
	"context"
	"time"
)

// A Queuer is a [Store] that serves those who wait in the order in which they came. Its Capabilities say so.
type Queuer interface {
	Store
	// TryInTurn is TryAcquire for one who waits in turn: it is refused also while somebody waits ahead of w, and then w has a
	// place in the queue. Who takes the lease, does not ask again in w.TTL, or leaves has no place any longer. A w without an ID
	// takes no place, and is behind all who wait. Grant.Ahead says how many are ahead.
	TryInTurn(ctx context.Context, c Claim, w Waiter) (Grant, error)
	// Leave gives up the place of a waiter.
	Leave(ctx context.Context, name, id string) error
}

// A Waiter waits for a lease in turn.
type Waiter struct {
	// ID tells this waiter from all others.
	ID string
	// TTL is how long its place is kept if it does not ask again.
	TTL time.Duration
}

// place is how long one who waits keeps its place after a try: it asks again within PollEvery, and renews the place when half of the
// time is over.
func (c *core) place() time.Duration { return 4*c.o.PollEvery + 2*time.Second }

// joinQueue returns the name of a waiter, and what gives up its place if it has not got the lease.
func (c *core) joinQueue(ctx context.Context, name string) (waiter string, leave func(got bool)) {
	if !c.o.Fair || c.err != nil {
		return "", func(bool) {}
	}
	waiter = newNonce()
	return waiter, func(got bool) {
		if got {
			return
		}
		go func() { // the caller's context has ended, as a rule
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
			defer cancel()
			_ = c.store.(Queuer).Leave(ctx, name, waiter) // or the place runs out
		}()
	}
}
