// Package pay is the payments story: a service whose clients retry, double-click and lose replies.
package pay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

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

// limit is the amount above which the card is declined.
const limit = 1_000_000

// Service charges payments. It holds the idempotency boundary: whoever calls it, over HTTP, from a queue or from a test,
// cannot charge twice.
type Service[T any] struct {
	db   *tx.DB[T]
	keys *idem.Keys[T]
}

// NewService returns the service on a migrated database.
func NewService[T any](db *tx.DB[T]) *Service[T] {
	return &Service[T]{db: db, keys: idem.New(db, nil)}
}

// Pay charges p once for each key of a tenant. The key, the charge and the receipt are one commit.
func (s *Service[T]) Pay(ctx context.Context, tenant, key string, p Payment) (idem.Result[Receipt], error) {
	k := idem.Key{
		Scope:       tenant, // nobody else reaches the receipt, whatever key they guess
		Name:        "pay",
		Value:       key,
		Fingerprint: idem.FingerprintOf(p.Order, strconv.FormatInt(p.Amount, 10)), // another amount is another request
	}
	return idem.Do(ctx, s.keys, k, func(ctx context.Context, t T) (Receipt, error) {
		if p.Amount > limit {
			// A final answer: it is stored and replayed. A 503 here would free the key instead.
			return Receipt{}, &idem.Failure{Status: 402, Message: "the card is declined"}
		}
		return charge(ctx, s.db.Tx(t), tenant, p)
	})
}

// charge is the business: some SQL in the transaction that it is given.
func charge(ctx context.Context, conn tx.Conn, tenant string, p Payment) (Receipt, error) {
	r := Receipt{Order: p.Order, Amount: p.Amount}
	err := conn.QueryRow(ctx, "insert into charge (tenant, order_id, amount) values ($1, $2, $3) returning id",
		tenant, p.Order, p.Amount).Scan(&r.Charge)
	return r, err
}

// Naive is the service as it is often written: look whether the key is known, then do the work, then store the answer.
type Naive[T any] struct{ db *tx.DB[T] }

// Pay charges p unless it finds the key. Two requests that look at the same time both find nothing; a reply that is lost
// before the answer is stored is a second charge too.
func (s Naive[T]) Pay(ctx context.Context, tenant, key string, p Payment) (Receipt, error) {
	if p.Amount > limit {
		return Receipt{}, &idem.Failure{Status: 402, Message: "the card is declined"}
	}
	conn, known := s.db.Conn(), ""
	err := conn.QueryRow(ctx, "select answer from naive_key where id = $1", tenant+":"+key).Scan(&known)
	if err == nil {
		var r Receipt
		return r, json.Unmarshal([]byte(known), &r)
	}
	if !errors.Is(err, tx.ErrNoRows) {
		return Receipt{}, err
	}
	r, err := charge(ctx, conn, tenant, p)
	if err != nil {
		return r, err
	}
	answer, err := json.Marshal(r)
	if err != nil {
		return r, err
	}
	_, err = conn.Exec(ctx, "insert into naive_key (id, answer) values ($1, $2) on conflict do nothing", tenant+":"+key, string(answer))
	return r, err
}

// Migrate makes the tables.
func Migrate[T any](ctx context.Context, db *tx.DB[T]) error {
	if err := idem.Migrate(ctx, db, idem.Names{}); err != nil {
		return err
	}
	id := "integer primary key"
	if db.Dialect() == tx.PostgreSQL {
		id = "bigint generated always as identity primary key"
	}
	for _, table := range []string{
		"create table if not exists charge (id " + id + ", tenant text not null, order_id text not null, amount bigint not null)",
		"create table if not exists naive_key (id text primary key, answer text not null)",
	} {
		if _, err := db.Conn().Exec(ctx, table); err != nil {
			return fmt.Errorf("create the tables of the example: %w", err)
		}
	}
	return nil
}
