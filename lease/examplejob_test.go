package lease_test

import (
	"context"
	"database/sql"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
	"github.com/holdfast-go/holdfast/tx/sqltx"
)

// Every instance starts this, and one of them writes the report of each day. The report and the end of its slot are one commit, so
// that there is one report of a day, also if an instance dies in the middle.
func ExampleJob_Run() {
	var pool *pgxpool.Pool // open, and migrated with lease.Migrate
	db := pgxtx.New(pool)
	reports := lease.NewJob(lease.NewSQL(db, lease.Names{}), "report", &lease.JobOptions{
		Schedule: lease.Every(24 * time.Hour),
		Missed:   lease.All(7), // a report is written for each day of a week that everything was down
	})

	run := func(ctx context.Context) error {
		return reports.Run(ctx, func(ctx context.Context, s *lease.Slot) error {
			return db.Do(ctx, func(ctx context.Context, t pgx.Tx) error {
				if err := reports.Finish(ctx, t, s); err != nil {
					return err
				}
				day := s.At.AddDate(0, 0, -1).Format(time.DateOnly) // the slot is the midnight that ends it, in UTC
				_, err := t.Exec(ctx, "insert into report select $1::date, sum(amount) from sale where day = $1::date", day)
				return err
			})
		}, func(ctx context.Context, err error) { slog.ErrorContext(ctx, "report", "err", err) })
	}
	_ = run
}

// A scheduler elsewhere starts a process for each slot, and sometimes two.
func ExampleJob_OnceTx() {
	var pool *sql.DB // open, and migrated with lease.Migrate
	db := sqltx.New(pool, tx.SQLite, nil)
	interest := lease.NewJob(lease.NewSQL(db, lease.Names{}), "interest", nil)

	pay := func(ctx context.Context, day time.Time) error {
		ran, err := interest.OnceTx(ctx, day, func(ctx context.Context, t *sql.Tx) error {
			_, err := t.ExecContext(ctx, "update account set balance = balance + balance * 3 / 36500")
			return err
		})
		if err == nil && !ran {
			slog.InfoContext(ctx, "it is paid, or somebody pays it", "day", day)
		}
		return err
	}
	_ = pay
}

// What is done outside the database is done at least once. The slot names it for the other side, which can tell a repetition, and
// its token lets the other side refuse a run that another has followed.
func ExampleJob_Once() {
	var pool *pgxpool.Pool
	backup := lease.NewJob(lease.NewSQL(pgxtx.New(pool), lease.Names{}), "backup", &lease.JobOptions{Lease: lease.Options{TTL: time.Minute}})

	upload := func(ctx context.Context, key string, token int64) error { return nil }
	run := func(ctx context.Context, slot time.Time) error {
		_, err := backup.Once(ctx, slot, func(ctx context.Context, s *lease.Slot) error {
			return upload(ctx, s.At.Format(time.RFC3339), s.Fence().Token)
		})
		return err
	}
	_ = run
}

// The functions of robfig/cron, whose parsed expression is the schedule:
//
//	schedule, err := cron.ParseStandard("CRON_TZ=Europe/Berlin 0 2 * * *")
//	c.Schedule(schedule, cron.FuncJob(job.Cron(ctx, fn, failed)))
func ExampleJob_Cron() {
	var pool *pgxpool.Pool
	var schedule lease.Schedule // a cron.Schedule is one
	job := lease.NewJob(lease.NewSQL(pgxtx.New(pool), lease.Names{}), "cleanup", &lease.JobOptions{Schedule: schedule})

	run := job.Cron(context.Background(), func(context.Context, *lease.Slot) error { return nil }, nil)
	_ = run
}

// A gocron.Locker, whose jobs have the names of ours:
//
//	s, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
//	s.NewJob(gocron.CronJob("*/5 * * * *", false), task, gocron.WithName("cleanup"))
func ExampleNewLocker() {
	type Lock interface {
		Unlock(ctx context.Context) error
	} // gocron.Lock

	var pool *pgxpool.Pool
	job := lease.NewJob(lease.NewSQL(pgxtx.New(pool), lease.Names{}), "cleanup", &lease.JobOptions{Schedule: lease.Every(5 * time.Minute)})
	locker, err := lease.NewLocker[Lock](job)
	_, _ = locker, err
}
