package counter

import (
	"context"
	"errors"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tx"
)

// sweepBatch is how many rows one statement of a sweep removes, so that none takes long or holds many locks.
const sweepBatch = 1000

// Sweep forgets the operations that have expired, in batches that are each committed at once, until none is left or ctx ends.
// It returns how many they were. Sweepers of several processes do not wait for each other. An error is that of the last
// batch; those before it are removed.
func (c *Counters[T]) Sweep(ctx context.Context) (total int64, err error) {
	if c.err != nil {
		return 0, c.err
	}
	started := time.Now()
	for n := int64(sweepBatch); n >= sweepBatch && err == nil; {
		n, err = c.db.Conn().Exec(ctx, c.ops.sweep, sweepBatch)
		total += n
	}
	if class := c.db.Classify(err); err != nil && class != tx.Lost && class != tx.Permanent {
		err = &tx.AbortError{Err: err, Class: class, Attempts: 1}
	}
	if total > 0 || err != nil {
		holdfast.Observe(ctx, c.o.Observer, holdfast.Event{
			Kind: EventSwept, Name: c.place.scope, Count: total, Elapsed: time.Since(started), Err: err,
		})
	}
	return total, err
}

// SweepEvery calls [Counters.Sweep] at once and then at each interval until ctx ends, and returns the cause of that. An error
// of a sweep does not end it: the observer is told, and the next interval tries again.
func (c *Counters[T]) SweepEvery(ctx context.Context, interval time.Duration) error {
	if interval <= 0 {
		return errors.New("counter: the interval of a sweeper must be positive")
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		_, _ = c.Sweep(ctx)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
