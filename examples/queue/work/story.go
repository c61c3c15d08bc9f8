package work

import (
	"context"
	"database/sql"
	"errors"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/examples/internal/story"
	"github.com/holdfast-go/holdfast/tx"
)

const (
	jobs    = 100
	workers = 6
)

var errJob = errors.New("the job failed")

// Run runs the story: the naive worker and ours on the same jobs.
func Run(ctx context.Context, c story.Config) (story.Result, error) {
	r := story.Result{Story: "queue", Hazard: "workers pull the same job", Backend: story.Backend(c.DSN)}
	place, err := story.NewPlace(ctx, c.DSN)
	if err != nil {
		return r, err
	}
	defer place.Remove()
	err = place.On(ctx,
		func(ctx context.Context, db *tx.DB[*sql.Tx]) error { return run(ctx, c, db, &r) },
		func(ctx context.Context, db *tx.DB[pgx.Tx]) error { return run(ctx, c, db, &r) })
	return r, err
}

func run[T any](ctx context.Context, c story.Config, db *tx.DB[T], r *story.Result) error {
	for _, table := range []string{
		"create table job (id bigint primary key, done boolean not null default false)",
		"create table receipt (job bigint not null)", // one for each time that a job was done
	} {
		if _, err := db.Conn().Exec(ctx, table); err != nil {
			return err
		}
	}
	var err error
	if r.NaiveDamage, err = load(ctx, c, db, "naive: select, then update", NaiveWorker[T]); err != nil {
		return err
	}
	if r.Damage, err = load(ctx, c, db, "pessimistic.Work", Worker[T]); err != nil {
		return err
	}
	r.Operations = 2 * jobs
	r.Judge()
	return nil
}

// load lets all workers run until nothing is left, and returns how many jobs were done too often or not at all.
func load[T any](ctx context.Context, c story.Config, db *tx.DB[T], name string, worker func(context.Context, *tx.DB[T], Job) error) (int, error) {
	for _, table := range []string{"job", "receipt"} {
		if _, err := db.Conn().Exec(ctx, "delete from "+table); err != nil {
			return 0, err
		}
	}
	for id := range jobs {
		if _, err := db.Conn().Exec(ctx, "insert into job (id) values ($1)", int64(id)); err != nil {
			return 0, err
		}
	}
	do := jobThatFails()
	var all sync.WaitGroup
	errs := make([]error, workers)
	for i := range workers {
		all.Go(func() { errs[i] = worker(ctx, db, do) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return 0, err
	}
	var receipts, done int
	if err := db.Conn().QueryRow(ctx, "select count(*), count(distinct job) from receipt").Scan(&receipts, &done); err != nil {
		return 0, err
	}
	c.Logf("%-27s %d workers, %d jobs: %d done twice or more often, %d never", name, workers, jobs, receipts-done, jobs-done)
	return receipts - done + jobs - done, nil
}

// jobThatFails leaves a receipt. Every seventh job fails the first time.
func jobThatFails() Job {
	var mu sync.Mutex // guards failed
	failed := map[int64]bool{}
	return func(ctx context.Context, t tx.Tx, id int64) error {
		mu.Lock()
		first := !failed[id]
		failed[id] = true
		mu.Unlock()
		if _, err := t.Exec(ctx, "insert into receipt (job) values ($1)", id); err != nil {
			return err
		}
		if id%7 == 0 && first {
			return errJob
		}
		return nil
	}
}
