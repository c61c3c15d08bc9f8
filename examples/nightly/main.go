// Command nightly shows a scheduled job on several instances of one service.
//
//	go run ./examples/nightly                        SQLite
//	go run ./examples/nightly -dsn postgres://…      PostgreSQL
//
// Five replicas have the same schedule and clocks that differ by more than a period. Two jobs are due in each period: one takes
// 5 ms, one takes three periods. The naive way takes a lock for the run, and lets it go afterwards. Both jobs run twice and more
// often: the short one has let the lock go when the next replica comes, and the long one has outlived it.
//
// Making the lock's time longer helps one of them and hurts the other, since the question is not "is somebody at it?" but "was it
// done?". So ours keeps a row for each slot, which is an instant of the schedule, and a lease while it runs (batch/replica.go):
//
//	job := lease.NewJob(store, "report", nil)
//	ran, err := job.Once(ctx, slot, func(ctx context.Context, s *lease.Slot) error {
//		… // once for this slot, on one of the replicas
//	})
//
// Here the replicas come for a slot when their own clocks say so, as gocron and robfig/cron do (job.Cron and lease.Locker fit
// them). A service without such a scheduler calls job.Run in each replica, which goes by the database's clock, makes up for slots
// that were missed, and takes over from a replica that died:
//
//	job := lease.NewJob(store, "report", &lease.JobOptions{Schedule: lease.Every(24 * time.Hour), Missed: lease.Latest})
//	err := job.Run(ctx, report, failed)
//
// Writes that must be there exactly once, also if a replica dies in the middle, commit together with the slot: job.OnceTx.
//
// It exits with 1 if a slot was run twice or never, and also if the naive way came through.
package main

import (
	"github.com/holdfast-go/holdfast/examples/internal/story"
	"github.com/holdfast-go/holdfast/examples/nightly/batch"
)

func main() { story.Main(batch.Run) }
