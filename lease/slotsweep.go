package lease

import (
	"context"
	"encoding/json"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
)

// sweepBatch is how many rows one transaction of a sweep removes, so that none takes long or holds many locks.
const sweepBatch = 1000

// Sweep removes the slots that are older than JobOptions.Keep, with their leases, in batches that are each committed at once, until
// none is left or ctx ends. It keeps the last slot, and those that are running. It returns how many it removed. [Job.Run] does it,
// too. Sweepers of several processes do not wait for each other on PostgreSQL.
func (j *Job[T]) Sweep(ctx context.Context) (total int, err error) {
	if j.err != nil {
		return 0, j.err
	}
	started := time.Now()
	for n := sweepBatch; n >= sweepBatch && err == nil; {
		n, err = j.sweepBatch(ctx)
		total += n
	}
	if total > 0 || err != nil {
		holdfast.Observe(ctx, j.o.Lease.Observer, holdfast.Event{
			Kind: EventSlotsSwept, Name: j.name, Count: int64(total), Elapsed: time.Since(started), Err: err,
		})
	}
	return total, err
}

func (j *Job[T]) sweepBatch(ctx context.Context) (n int, err error) {
	db := j.store.db
	err = db.Do(ctx, func(ctx context.Context, t T) error {
		n = 0
		leases := []string{}
		rows, err := db.Tx(t).Query(ctx, j.sql.sweep, j.name, j.o.Keep.Milliseconds(), sweepBatch)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var name string
			if err := rows.Scan(&name); err != nil {
				return err
			}
			n++
			if name != j.name { // that of a job that runs alone is taken again
				leases = append(leases, name)
			}
		}
		if err := rows.Err(); err != nil {
			return err
		}
		rows.Close()
		text, err := json.Marshal(leases)
		if err != nil {
			return err
		}
		_, err = db.Tx(t).Exec(ctx, j.sql.sweepLeases, string(text))
		return err
	})
	if err != nil {
		n = 0
	}
	return n, err
}
