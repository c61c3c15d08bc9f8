package cashier

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/tx"
)

// A Naive cashier looks whether the order is paid, charges, and saves what the provider said. Between the three anything can
// happen: two clients find nothing at the same moment, and a process that dies before it has saved has charged all the same.
type Naive[T any] struct {
	db       *tx.DB[T]
	provider Provider
	book     Book
	// keyOf returns the key that goes to the provider with an order. Without one, each try is another charge. With the order's
	// own it is the same charge, until the provider has forgotten the key.
	keyOf func(Order) string
}

// Pay charges o, unless it is paid.
func (n Naive[T]) Pay(ctx context.Context, o Order) (Charge, error) {
	if c, err := paid(ctx, n.db.Conn(), o); !errors.Is(err, tx.ErrNoRows) {
		return c, err
	}
	c, err := n.provider.Charge(ctx, n.keyOf(o), o)
	if err != nil {
		return c, err
	}
	return c, n.db.Do(ctx, func(ctx context.Context, t T) error { return n.book(ctx, n.db.Tx(t), o, c) })
}

// A ByHand cashier puts the same together with a lock for each order, which is renewed, and which it looks at right before the
// money moves: as good as a lock with an end can be. It keeps the clients of living processes apart. But the lock knows who
// is at it, the table knows what is done, and nobody knows what was begun. When a process dies, or stands still until its
// lock has run out, the next one finds a free lock and nothing in the table, as for an order that nobody has touched.
//
// A row that is claimed in one statement is both, and says what was begun: see Cashier.
type ByHand[T any] struct {
	db       *tx.DB[T]
	locks    *lease.Leases[*lease.Advisory]
	provider Provider
	book     Book
}

// Pay charges o, unless it is paid, under the lock of the order.
func (b ByHand[T]) Pay(ctx context.Context, o Order) (Charge, error) {
	lock, err := b.locks.Acquire(ctx, "charge "+o.ID) // claim
	if err != nil {
		return Charge{}, err
	}
	defer func() { _, _ = lock.Release(ctx) }()                             // release
	if c, err := paid(ctx, b.db.Conn(), o); !errors.Is(err, tx.ErrNoRows) { // check
		return c, err
	}
	if err := lock.Check(); err != nil {
		return Charge{}, err
	}
	c, err := b.provider.Charge(ctx, "", o) // run: here it may stand still, and the lock run out
	if err != nil {
		return c, err
	}
	return c, b.db.Do(ctx, func(ctx context.Context, t T) error { return b.book(ctx, b.db.Tx(t), o, c) }) // save
}
