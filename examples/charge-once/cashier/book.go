package cashier

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/tx"
)

// Book writes down, in a transaction, that an order is paid.
type Book func(ctx context.Context, conn tx.Conn, o Order, c Charge) error

// book is the business: one row for each order. A second one does not replace it, and is no error to the naive.
func book(ctx context.Context, conn tx.Conn, o Order, c Charge) error {
	_, err := conn.Exec(ctx, "insert into payment (order_id, charge, amount) values ($1, $2, $3) on conflict do nothing", o.ID, c.ID, c.Amount)
	return err
}

// paid returns the charge that an order was paid with, or tx.ErrNoRows.
func paid(ctx context.Context, conn tx.Conn, o Order) (c Charge, err error) {
	err = conn.QueryRow(ctx, "select charge, order_id, amount from payment where order_id = $1", o.ID).Scan(&c.ID, &c.Order, &c.Amount)
	return c, err
}

// Migrate makes the tables.
func Migrate[T any](ctx context.Context, db *tx.DB[T]) error {
	_, err := db.Conn().Exec(ctx, "create table payment (order_id varchar(100) primary key, charge varchar(100) not null, amount bigint not null)")
	if err != nil {
		return fmt.Errorf("make the table: %w", err)
	}
	return errors.Join(lease.Migrate(ctx, db, lease.Names{}), idem.Migrate(ctx, db, idem.Names{}))
}
