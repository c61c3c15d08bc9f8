package cashier

import (
	"context"
	"errors"
	"strconv"

	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/tx"
)

// A Cashier charges each order once, whatever dies or stands still meanwhile.
type Cashier[T any] struct {
	db       *tx.DB[T]
	keys     *idem.Leased[*idem.RunTx[T]]
	provider Provider
	book     Book
	orders   *idem.Handler[*idem.RunTx[T], Order, Charge]
}

// NewCashier returns a cashier on a migrated database.
func NewCashier[T any](db *tx.DB[T], provider Provider, book Book, o *idem.LeaseOptions) *Cashier[T] {
	c := &Cashier[T]{db: db, keys: idem.NewLeased(idem.New(db, nil), o), provider: provider, book: book}
	c.orders = idem.Handle(c.keys, "charge", c.charge)
	return c
}

// Pay charges o, or returns the charge that was made for it. After an error the same call may be made again, by whatever process.
func (c *Cashier[T]) Pay(ctx context.Context, o Order) (Charge, error) {
	res, err := c.orders.Do(ctx, idem.Key{
		Scope:       "shop",
		Value:       o.ID,
		Fingerprint: idem.FingerprintOf(o.ID, strconv.FormatInt(o.Amount, 10)), // another amount is another request
	}, o)
	return res.Value, err
}

// Open counts the orders that have no answer yet.
func (c *Cashier[T]) Open(ctx context.Context) (int, error) {
	list, err := c.keys.List(ctx, idem.Filter{States: []idem.State{idem.Running, idem.Unknown, idem.Pending}})
	return len(list), err
}

// CleanUp finishes what others have left, and whose time has come: orders whose process died, or about which nobody knows. A
// service runs it all the time, see idem.Leased.CompleteEvery.
func (c *Cashier[T]) CleanUp(ctx context.Context) error {
	_, err := c.keys.Complete(ctx)
	return err
}

// charge is the work of one order. No transaction is open while the provider is asked.
func (c *Cashier[T]) charge(ctx context.Context, run *idem.RunTx[T], o Order) (Charge, error) {
	made, err := idem.Step(ctx, run, idem.External[Charge]{
		Name: "charge",
		// It is recorded that this begins, and with which key, before it does.
		Call: func(ctx context.Context, key string) (Charge, error) { return c.provider.Charge(ctx, key, o) },
		// If there is no result later, because the process died or no answer came, nobody guesses.
		Reconcile: func(ctx context.Context, key string) (Charge, idem.Landing, error) {
			made, err := c.provider.Find(ctx, key)
			switch {
			case err == nil:
				return made, idem.Landed, nil
			case errors.Is(err, ErrNoCharge):
				return made, idem.Absent, nil // it is made then, with the same key: a request that is still on its way does no harm
			}
			return made, idem.Unsure, err // it is asked again later
		},
	})
	if err != nil {
		return Charge{}, err
	}
	// The payment and the answer of the key are one commit. A process that has lost the key meanwhile does not get to it.
	return idem.Finish(ctx, run, func(ctx context.Context, t T) (Charge, error) {
		return made, c.book(ctx, c.db.Tx(t), o, made)
	})
}
