package idem

import (
	"context"
	"errors"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
)

// sweepBatch is how many rows one statement of a sweep removes, so that none takes long or holds many locks.
const sweepBatch = 1000

// Sweep removes the answers that have expired, and after Options.Tombstone their keys, in batches that are each committed
// at once, until none is left or ctx ends. It returns how many keys it removed. A key that is running is never removed.
// Sweepers of several processes do not wait for each other, and no call waits for a sweeper.
func (k *Keys[T]) Sweep(ctx context.Context) (int64, error) {
	if k.err != nil {
		return 0, k.err
	}
	return sweep(ctx, k.o.Observer, k.o.Table, k.sweepBatch)
}

// sweepBatch sweeps one batch. done is how many rows it dealt with.
func (k *Keys[T]) sweepBatch(ctx context.Context) (done, removed int64, err error) {
	conn, stands := k.db.Conn(), max(k.o.Tombstone, 0).Microseconds()
	if k.sql.bury == "" {
		err = conn.QueryRow(ctx, k.sql.sweep, sweepBatch, stands).Scan(&done, &removed)
		return done, removed, err
	}
	if removed, err = conn.Exec(ctx, k.sql.sweep, sweepBatch, stands); err != nil {
		return 0, 0, err
	}
	buried, err := conn.Exec(ctx, k.sql.bury, sweepBatch, stands)
	return removed + buried, removed, err
}

// SweepEvery calls [Keys.Sweep] at once and then at each interval until ctx ends, and returns the cause of that. An error
// of a sweep does not end it: the observer is told, and the next interval tries again.
func (k *Keys[T]) SweepEvery(ctx context.Context, interval time.Duration) error {
	return every(ctx, interval, k.Sweep)
}

func sweep(
	ctx context.Context, o holdfast.Observer, table string, batch func(context.Context) (done, removed int64, err error),
) (total int64, err error) {
	started := time.Now()
	for done := int64(sweepBatch); done >= sweepBatch && err == nil; {
		var removed int64
		done, removed, err = batch(ctx)
		total += removed
	}
	if total > 0 || err != nil {
		holdfast.Observe(ctx, o, holdfast.Event{Kind: EventSwept, Name: table, Count: total, Elapsed: time.Since(started), Err: err})
	}
	return total, err
}

func every(ctx context.Context, interval time.Duration, sweep func(context.Context) (int64, error)) error {
	if interval <= 0 {
		return errors.New("idem: the interval of a sweeper must be positive")
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		_, _ = sweep(ctx) // the observer has its error
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
