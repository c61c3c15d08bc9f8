package idem

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/jitter"
)

// retryAfter is what a refused duplicate is told. Nobody knows how long the first still takes.
const retryAfter = time.Second

// pause waits before a busy key is tried again, without a connection, or returns the error to give up with.
func (k *core) pause(ctx context.Context, c *call, try int) error {
	if err := waitTurn(ctx, c.started, k.o.Wait, try); err != nil {
		return k.refuse(ctx, c, err)
	}
	return nil
}

func (k *core) refuse(ctx context.Context, c *call, err error) error {
	k.observe(ctx, EventInFlight, c, err)
	return err
}

// waitTurn sleeps up to 50 ms, more from try to try, unless limit has passed since started.
func waitTurn(ctx context.Context, started time.Time, limit time.Duration, try int) error {
	left := limit - time.Since(started)
	if left <= 0 {
		return &InFlightError{RetryAfter: retryAfter}
	}
	return sleep(ctx, min(left, jitter.Full(2*time.Millisecond, 50*time.Millisecond, try)))
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
