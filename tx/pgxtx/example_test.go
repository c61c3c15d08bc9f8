package pgxtx_test

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
)

// A transfer at SERIALIZABLE, run again when it could not be serialized, and looked up when the reply to its COMMIT is
// lost.
func Example() {
	transfer := func(ctx context.Context, pool *pgxpool.Pool, from, to, amount int64) error {
		db := pgxtx.New(pool).With(tx.Options{Isolation: tx.Serializable, ResolveCommit: true})
		return db.Do(ctx, func(ctx context.Context, t pgx.Tx) error {
			if _, err := t.Exec(ctx, "update account set balance = balance - $2 where id = $1", from, amount); err != nil {
				return err
			}
			_, err := t.Exec(ctx, "update account set balance = balance + $2 where id = $1", to, amount)
			return err
		})
	}
	_ = transfer
}

// A transaction that leaves a marker, by which its outcome is found out when the reply to COMMIT is lost. The table is
// marker (id text primary key). To answer repeated requests as well, use package idem.
func Example_marker() {
	errMarked := errors.New("marked")
	withMarker := func(ctx context.Context, db *tx.DB[pgx.Tx], id string, work func(context.Context, pgx.Tx) error) error {
		return db.Run(ctx, tx.Plan[pgx.Tx]{
			Work: func(ctx context.Context, t pgx.Tx) error {
				if _, err := t.Exec(ctx, "insert into marker (id) values ($1)", id); err != nil {
					return err
				}
				return tx.NoDiscard(work(ctx, t))
			},
			Resolve: func(ctx context.Context) (holdfast.Outcome, error) {
				// The insert waits for a transaction that is still committing. It is not to stay.
				errFree := errors.New("free")
				err := db.Do(ctx, func(ctx context.Context, t pgx.Tx) error {
					tag, err := t.Exec(ctx, "insert into marker (id) values ($1) on conflict do nothing", id)
					switch {
					case err != nil:
						return err
					case tag.RowsAffected() == 0:
						return errMarked
					}
					return errFree
				})
				switch {
				case errors.Is(err, errMarked):
					return holdfast.Applied, nil
				case errors.Is(err, errFree):
					return holdfast.NotApplied, nil
				}
				return holdfast.Unknown, err
			},
		})
	}
	_ = withMarker
}
