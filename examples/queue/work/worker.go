// Package work is the queue story: several workers pull jobs from one table.
package work

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/examples/internal/story"
	"github.com/holdfast-go/holdfast/pessimistic"
	"github.com/holdfast-go/holdfast/tx"
)

// A Job is what a worker does. It writes in the worker's transaction.
type Job func(ctx context.Context, t tx.Tx, id int64) error

// batch is how many jobs a worker takes at once.
const batch = 5

// Worker does jobs until none is ready. The claim, what the jobs write, and their marks are one commit.
func Worker[T any](ctx context.Context, db *tx.DB[T], do Job) error {
	var id int64
	var ids []int64
	queue := pessimistic.Queue{Table: pessimistic.Table{Name: "job"}, Where: "not done", Limit: batch}
	queue = queue.Read([]string{"id"}, []any{&id}, func(row int) error {
		if row == 0 {
			ids = ids[:0] // the transaction runs again
		}
		ids = append(ids, id)
		return nil
	})
	locks := pessimistic.New(db, nil)
	for {
		n, err := locks.Work(ctx, queue, func(ctx context.Context, t T) error {
			for _, id := range ids {
				if err := attempt(ctx, db, t, do, id); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil || n == 0 {
			return err
		}
	}
}

// attempt does one job in a savepoint, so that one that fails does not take the batch with it: it stays ready.
func attempt[T any](ctx context.Context, db *tx.DB[T], t T, do Job, id int64) error {
	err := db.Nested(ctx, t, func(ctx context.Context, t T) error {
		if err := do(ctx, db.Tx(t), id); err != nil {
			return err
		}
		_, err := db.Tx(t).Exec(ctx, "update job set done = true where id = $1", id)
		return err
	})
	if errors.Is(err, errJob) {
		return nil
	}
	return err
}

// NaiveWorker selects, and then updates.
func NaiveWorker[T any](ctx context.Context, db *tx.DB[T], do Job) error {
	for {
		var id int64
		err := db.Conn().QueryRow(ctx, "select id from job where not done order by id limit 1").Scan(&id)
		if errors.Is(err, tx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := story.Elsewhere(ctx); err != nil { // the worker prepares
			return err
		}
		err = db.Do(ctx, func(ctx context.Context, t T) error {
			if err := do(ctx, db.Tx(t), id); err != nil {
				return err
			}
			_, err := db.Tx(t).Exec(ctx, "update job set done = true where id = $1", id)
			return err
		})
		if err != nil && !errors.Is(err, errJob) {
			return err
		}
	}
}
