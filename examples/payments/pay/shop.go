package pay

import (
	"context"
	"fmt"
	"sync"

	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/tx"
)

// limit is the amount above which the card is declined.
const limit = 1_000_000

// shop is the business: some SQL in the transaction that it is given, and two ways to fail.
type shop struct {
	mu  sync.Mutex // guards met
	met map[string]bool
}

func newShop() *shop { return &shop{met: map[string]bool{}} }

// charge writes the charge. When it fails, its caller's transaction undoes that.
func (s *shop) charge(ctx context.Context, conn tx.Conn, tenant string, p Payment) (Receipt, error) {
	r := Receipt{Order: p.Order, Amount: p.Amount}
	err := conn.QueryRow(ctx, "insert into charge (tenant, order_id, amount) values ($1, $2, $3) returning id",
		tenant, p.Order, p.Amount).Scan(&r.Charge)
	switch {
	case err != nil:
		return Receipt{}, err
	case p.Amount > limit:
		// A final answer: idem stores and replays it.
		return Receipt{}, &idem.Failure{Status: 402, Message: "the card is declined"}
	case s.down(p.Order):
		// Not an answer: idem frees the key, so that the client can try again.
		return Receipt{}, &idem.Failure{Status: 503, Message: "the ledger is down for a moment"}
	}
	return r, nil
}

// down lets every eighth order meet a ledger that is down, the first time.
func (s *shop) down(order string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.met[order] || order == "" || order[len(order)-1]%8 != 0 {
		return false
	}
	s.met[order] = true
	return true
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
