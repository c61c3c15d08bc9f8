package batch

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/examples/internal/story"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/tx"
)

const (
	replicas = 5
	slots    = 8
	period   = 200 * time.Millisecond
	skew     = period * 3 / 2 // between the first clock and the last
)

// works are the jobs, by how long they take.
var works = map[string]time.Duration{"short": 5 * time.Millisecond, "long": 3 * period}

// onSlot is what the replicas do, one way or the other.
type onSlot func(ctx context.Context, job string, slot time.Time, do Task) error

// Run runs the story: the naive replicas and ours on the same schedule.
func Run(ctx context.Context, c story.Config) (story.Result, error) {
	r := story.Result{Story: "nightly", Hazard: "a scheduled job on several instances", Backend: story.Backend(c.DSN)}
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
	if err := lease.Migrate(ctx, db, lease.Names{}); err != nil {
		return err
	}
	for _, table := range []string{
		"create table job_lock (name varchar(100) primary key, until bigint not null)",
		"create table receipt (job varchar(100) not null, slot bigint not null)", // one for each run
	} {
		if _, err := db.Conn().Exec(ctx, table); err != nil {
			return err
		}
	}
	naive := func(ctx context.Context, job string, slot time.Time, do Task) error {
		return NaiveOnSlot(ctx, db, job, slot, do)
	}
	store := lease.NewSQL(db, lease.Names{})
	ours := func(ctx context.Context, job string, slot time.Time, do Task) error {
		return OnSlot(ctx, lease.NewJob(store, job, nil), slot, do)
	}
	var err error
	if r.NaiveDamage, err = load(ctx, c, db, "naive: lock, run, unlock", naive); err != nil {
		return err
	}
	if r.Damage, err = load(ctx, c, db, "lease.Job", ours); err != nil {
		return err
	}
	r.Operations = 2 * slots * len(works)
	r.Judge()
	return nil
}

// load lets all replicas go through the schedule, each when its clock says so, and returns how many runs were too many or missing.
func load[T any](ctx context.Context, c story.Config, db *tx.DB[T], name string, way onSlot) (damage int, err error) {
	if _, err := db.Conn().Exec(ctx, "delete from receipt"); err != nil {
		return 0, err
	}
	random := rand.New(rand.NewPCG(c.Seed, 0))
	first := time.Now().Add(skew + period).Truncate(period)
	var all sync.WaitGroup
	errs := make(chan error, replicas*slots*len(works))
	for replica := range replicas {
		ahead := time.Duration(replica)*skew/(replicas-1) - skew/2 // of this replica's clock
		ahead += time.Duration(random.Int64N(int64(period / 20)))
		for n := range slots {
			slot := first.Add(time.Duration(n) * period)
			for job, takes := range works {
				all.Go(func() {
					if err := sleep(ctx, time.Until(slot.Add(-ahead))); err == nil {
						errs <- way(ctx, job, slot, task(db, job, takes))
					}
				})
			}
		}
	}
	all.Wait()
	close(errs)
	for e := range errs {
		err = errors.Join(err, e)
	}
	for job := range works {
		var runs, done int
		row := db.Conn().QueryRow(ctx, "select count(*), count(distinct slot) from receipt where job = $1", job)
		err = errors.Join(err, row.Scan(&runs, &done), ctx.Err())
		c.Logf("%-24s %d replicas, %s job, %d slots: %d runs too many, %d slots never run", name, replicas, job, slots, runs-done, slots-done)
		damage += runs - done + slots - done
	}
	return damage, err
}

// task leaves a receipt and takes its time.
func task[T any](db *tx.DB[T], job string, takes time.Duration) Task {
	return func(ctx context.Context, slot time.Time) error {
		if _, err := db.Conn().Exec(ctx, "insert into receipt (job, slot) values ($1, $2)", job, slot.UnixMilli()); err != nil {
			return err
		}
		return sleep(ctx, takes)
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
