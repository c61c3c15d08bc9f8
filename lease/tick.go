package lease

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/jitter"
)

// Tick runs what is due, one slot after the other, the oldest first; see [Job.Due] and [Job.Once]. ran is how many slots were run
// here. It goes on after a slot that failed, and returns the errors of all.
func (j *Job[T]) Tick(ctx context.Context, fn func(ctx context.Context, s *Slot) error) (ran int, err error) {
	ran, _, err = j.tick(ctx, fn)
	return ran, err
}

func (j *Job[T]) tick(ctx context.Context, fn func(ctx context.Context, s *Slot) error) (ran int, now time.Time, err error) {
	due, now, err := j.due(ctx)
	if err != nil {
		return 0, now, err
	}
	var failures []error
	for _, slot := range due {
		if cause := context.Cause(ctx); cause != nil {
			failures = append(failures, cause)
			break
		}
		ok, err := j.Once(ctx, slot, fn)
		if ok {
			ran++
		}
		if err != nil {
			failures = append(failures, err)
		}
	}
	return ran, now, errors.Join(failures...)
}

// sweepEvery is how often Run removes old slots.
const sweepEvery = time.Hour

// Run runs the job whenever it is due, by the server's clock, until ctx ends, and one slot at a time: start it in every process. It
// also looks for slots whose run died, each JobOptions.Lease.TTL, and removes old slots. Errors are told to failed, which may be
// nil, and do not end it.
//
// It returns the cause of the end of ctx, or [*InputError] at once.
func (j *Job[T]) Run(ctx context.Context, fn func(ctx context.Context, s *Slot) error, failed func(ctx context.Context, err error)) error {
	if fn == nil {
		return &InputError{Name: "the closure", Reason: "is nil"}
	}
	if err := j.scheduled(); err != nil {
		return err
	}
	tell := func(err error) {
		if err != nil && failed != nil && ctx.Err() == nil {
			failed(ctx, err)
		}
	}
	var swept time.Time
	for failures := 0; ; {
		if time.Since(swept) > sweepEvery {
			_, err := j.Sweep(ctx)
			tell(err)
			swept = time.Now()
		}
		started := time.Now()
		ran, now, err := j.tick(ctx, fn)
		tell(err)
		if failures++; err == nil || ran > 0 {
			failures = 0
		}
		timer := time.NewTimer(j.pause(now, time.Since(started), failures))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}

// pause is how long to wait for the next slot: now was the server's time, not earlier than passed ago.
func (j *Job[T]) pause(now time.Time, passed time.Duration, failures int) time.Duration {
	longest := j.o.Lease.TTL
	if failures > 0 {
		return jitter.Full(min(100*time.Millisecond, longest), longest, failures)
	}
	next := j.o.Schedule.Next(now.In(j.o.Location))
	if next.IsZero() {
		return longest
	}
	return min(next.Sub(now)-passed, longest)
}
