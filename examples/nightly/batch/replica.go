// Package batch is the nightly story: replicas of one service with one schedule.
package batch

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/tx"
)

// A Task is the work of one slot, an instant of the schedule.
type Task func(ctx context.Context, slot time.Time) error

// OnSlot is what a replica does when its clock says that slot has come: the job is done by the first that comes, and by no other,
// however late. One that finds it done, or being done, has nothing to do and no error.
func OnSlot[T any](ctx context.Context, job *lease.Job[T], slot time.Time, do Task) error {
	_, err := job.Once(ctx, slot, func(ctx context.Context, s *lease.Slot) error { return do(ctx, s.At) })
	return err
}

// lockTTL is a time that "no job takes longer than".
const lockTTL = period

// NaiveOnSlot locks the slot, does the job, and unlocks it. The lock is right: one replica has it at a time. It answers the wrong
// question.
func NaiveOnSlot[T any](ctx context.Context, db *tx.DB[T], name string, slot time.Time, do Task) error {
	key, now := name+slot.Format(time.RFC3339Nano), time.Now() // stands for the database's clock
	locked, err := db.Conn().Exec(ctx, `insert into job_lock (name, until) values ($1, $2)
		on conflict (name) do update set until = excluded.until where job_lock.until < $3`,
		key, now.Add(lockTTL).UnixMilli(), now.UnixMilli())
	if err != nil || locked == 0 {
		return err
	}
	err = do(ctx, slot)
	if _, unlock := db.Conn().Exec(ctx, "update job_lock set until = 0 where name = $1", key); err == nil {
		err = unlock
	}
	return err
}
