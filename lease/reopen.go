package lease

import (
	"context"
	"time"
)

// Reopen lets a slot run again that has failed, or was given up: for people, once they have mended why. [Job.Run] and [Job.Due] come
// to it, if it is within JobOptions.Window; otherwise call [Job.Once]. The table lease_slot tells which slots have failed, and the
// errors of their runs. It is one request, and safe while others use the job.
//
// It returns a [*SlotError] if the slot has not failed, [*InputError], and errors of the database.
func (j *Job[T]) Reopen(ctx context.Context, slot time.Time) error {
	if j.err != nil {
		return j.err
	}
	slot = slotOf(slot)
	started := time.Now()
	n, err := j.store.db.Conn().Exec(ctx, j.sql.reopen, j.name, slot.UnixMilli())
	if err == nil && n == 0 {
		err = &SlotError{j.name, slot, "has not failed, so that there is nothing to reopen"}
	}
	if err == nil {
		j.observe(ctx, EventSlotReopened, &Slot{At: slot}, time.Since(started), nil)
	}
	return err
}
