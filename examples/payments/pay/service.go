// Package pay is the payments story: a service whose clients retry, double-click and lose replies.
package pay

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"

	"github.com/holdfast-go/holdfast/examples/internal/story"
	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/tx"
)

// A Payment is what a client asks for.
type Payment struct {
	Order  string `json:"order"`
	Amount int64  `json:"amount"` // in cents
}

// A Receipt is the answer.
type Receipt struct {
	Charge int64  `json:"charge"`
	Order  string `json:"order"`
	Amount int64  `json:"amount"`
}

// Service charges payments. It holds the idempotency boundary: whoever calls it, over HTTP, from a queue or from a test,
// cannot charge twice.
type Service[T any] struct {
	db   *tx.DB[T]
	keys *idem.Keys[T]
	shop *shop
}

// NewService returns the service on a migrated database.
func NewService[T any](db *tx.DB[T]) *Service[T] {
	return &Service[T]{db: db, keys: idem.New(db, nil), shop: newShop()}
}

// Pay charges p once for each key of a tenant. The key, the charge and the receipt are one commit.
func (s *Service[T]) Pay(ctx context.Context, tenant, key string, p Payment) (idem.Result[Receipt], error) {
	if err := story.Elsewhere(ctx); err != nil { // the fraud check: it only reads, so it may run again
		return idem.Result[Receipt]{}, err
	}
	k := idem.Key{
		Scope:       tenant, // nobody else reaches the receipt, whatever key they guess
		Name:        "pay",
		Value:       key,
		Fingerprint: idem.FingerprintOf(p.Order, strconv.FormatInt(p.Amount, 10)), // another amount is another request
	}
	return idem.Do(ctx, s.keys, k, func(ctx context.Context, t T) (Receipt, error) {
		return s.shop.charge(ctx, s.db.Tx(t), tenant, p)
	})
}

// Naive is the service as it is often written: look whether the key is known, then do the work, then store the answer.
type Naive[T any] struct {
	db   *tx.DB[T]
	shop *shop
}

// Pay charges p unless it finds the key. Two requests that look at the same time both find nothing, and a server that dies
// before the answer is stored charges again too. The charge itself is a transaction: that is not the point.
func (s *Naive[T]) Pay(ctx context.Context, tenant, key string, p Payment) (r Receipt, replayed bool, err error) {
	known := ""
	err = s.db.Conn().QueryRow(ctx, "select answer from naive_key where id = $1", key).Scan(&known)
	if err == nil {
		return r, true, json.Unmarshal([]byte(known), &r)
	}
	if !errors.Is(err, tx.ErrNoRows) {
		return r, false, err
	}
	if err := story.Elsewhere(ctx); err != nil { // the fraud check, only for new payments
		return r, false, err
	}
	err = s.db.Do(ctx, func(ctx context.Context, t T) error {
		r, err = s.shop.charge(ctx, s.db.Tx(t), tenant, p)
		return err
	})
	if err != nil {
		return r, false, err
	}
	answer, err := json.Marshal(r)
	if err != nil {
		return r, false, err
	}
	_, err = s.db.Conn().Exec(ctx, "insert into naive_key (id, answer) values ($1, $2) on conflict do nothing", key, string(answer))
	return r, false, err
}
