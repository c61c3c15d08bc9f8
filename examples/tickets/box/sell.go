// Package box is the tickets story: a box office that sells more seats than there are.
package box

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/counter"
	"github.com/holdfast-go/holdfast/examples/internal/story"
	"github.com/holdfast-go/holdfast/tx"
)

// An Office sells n seats of a show, all or none, and says whether it did.
type Office interface {
	Sell(ctx context.Context, show string, n int64) (bool, error)
}

// Naive looks, and then takes.
type Naive[T any] struct{ DB *tx.DB[T] }

// Sell sells what others sold since it looked.
func (o Naive[T]) Sell(ctx context.Context, show string, n int64) (bool, error) {
	var left int64
	if err := o.DB.Conn().QueryRow(ctx, "select seats from hall where name = $1", show).Scan(&left); err != nil {
		return false, err
	}
	if left < n {
		return false, nil
	}
	if err := story.Elsewhere(ctx); err != nil { // the payment
		return false, err
	}
	_, err := o.DB.Conn().Exec(ctx, "update hall set seats = $2 where name = $1", show, left-n)
	return err == nil, err
}

// Counted is ours.
type Counted[T any] struct{ Seats *counter.Counters[T] }

// Sell takes the seats if they are there, and all of them.
func (o Counted[T]) Sell(ctx context.Context, show string, n int64) (bool, error) {
	if err := story.Elsewhere(ctx); err != nil { // the payment is authorised; to be captured once the seats are taken
		return false, err
	}
	_, err := o.Seats.Take(ctx, show, n)
	if errors.Is(err, counter.ErrInsufficient) {
		return false, nil
	}
	return err == nil, err
}

// Open puts the seats of a show on sale, in slots.
func (o Counted[T]) Open(ctx context.Context, show string, seats int64, slots int) error {
	if _, err := o.Seats.Add(ctx, show, seats); err != nil {
		return err
	}
	return o.Seats.Resize(ctx, show, slots)
}

// Migrate makes the tables.
func Migrate[T any](ctx context.Context, db *tx.DB[T]) error {
	if _, err := db.Conn().Exec(ctx, "create table hall (name varchar(100) primary key, seats bigint not null)"); err != nil {
		return err
	}
	return counter.Migrate(ctx, db, counter.Names{})
}
