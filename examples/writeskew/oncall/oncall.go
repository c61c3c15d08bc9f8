// Package oncall is the write skew story: of two doctors on call one may leave, and both ask at once.
package oncall

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/examples/internal/story"
	"github.com/holdfast-go/holdfast/tx"
)

// ErrNeeded: nobody else is on call.
var ErrNeeded = errors.New("nobody else is on call")

// Serializable makes every transaction of db behave as if it ran alone. One that could not is run again by Do, from its
// first statement.
func Serializable(db *tx.DB[pgx.Tx]) *tx.DB[pgx.Tx] {
	return db.With(tx.Options{Isolation: tx.Serializable})
}

// Leave takes a doctor off a shift if another one stays. It is right at SERIALIZABLE, and there alone: at the other levels
// two doctors can both see the other one, and both leave.
func Leave(ctx context.Context, db *tx.DB[pgx.Tx], shift int, doctor string) error {
	return db.Do(ctx, func(ctx context.Context, t pgx.Tx) error {
		var others int
		err := t.QueryRow(ctx, "select count(*) from on_call where shift = $1 and doctor <> $2 and present", shift, doctor).Scan(&others)
		if err != nil {
			return err
		}
		if others == 0 {
			return ErrNeeded
		}
		if err := story.Elsewhere(ctx); err != nil { // the message to the ward
			return err
		}
		_, err = t.Exec(ctx, "update on_call set present = false where shift = $1 and doctor = $2", shift, doctor)
		return err
	})
}

// Migrate makes the table. No constraint can say that of several rows one stays.
func Migrate(ctx context.Context, db *tx.DB[pgx.Tx]) error {
	_, err := db.Conn().Exec(ctx, "create table on_call (shift integer, doctor text, present boolean not null default true, primary key (shift, doctor))")
	return err
}
