package idem

import (
	"context"
	"errors"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tx"
)

// sweepBatch is how many rows one statement of a sweep removes, so that none takes long or holds many locks.
const sweepBatch = 1000

// Sweep removes expired keys, in batches that are each committed at once, until none is left or ctx ends, and returns how
// many. A key that is running is never removed. Sweepers of several processes do not wait for each other.
func (k *Keys[T]) Sweep(ctx context.Context) (int64, error) {
	if k.err != nil {
		return 0, k.err
	}
	return sweep(ctx, k.db.Conn(), k.sql.sweep, k.o.Observer, k.o.Table)
}

// SweepEvery calls [Keys.Sweep] at once and then at each interval until ctx ends, and returns the cause of that. An error
// of a sweep does not end it: the observer is told, and the next interval tries again.
func (k *Keys[T]) SweepEvery(ctx context.Context, interval time.Duration) error {
	return every(ctx, interval, k.Sweep)
}

func sweep(ctx context.Context, conn tx.Conn, query string, o holdfast.Observer, table string) (total int64, err error) {
	started := time.Now()
	for {
		var n int64
		if n, err = conn.Exec(ctx, query, sweepBatch); err != nil {
			break
		}
		total += n
		if n < sweepBatch {
			break
		}
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
