package lease

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/jitter"
)

// Elect leads whenever it can, until ctx ends: it waits for the lease of name, calls lead under it as [Leases.Run] does, waits
// for it to return, releases, and stands again after a pause, in which whoever else stands comes first. A lead that returns
// resigns, and so does one whose context ends since [Leases.RequestResign] asked for it. Each term is a call of lead with a handle
// and a token of its own: after a loss the lease is not taken again before lead has returned.
//
// The error of lead is told to failed, which may be nil, and does not end the loop, nor does an error of the store. That lead was
// stopped to resign is no error.
//
// It returns the cause of the end of ctx, or [*InputError] and [ErrNested] at once.
func (l *Leases[H]) Elect(
	ctx context.Context, name string, lead func(ctx context.Context, h H) error, failed func(ctx context.Context, err error),
) error {
	if lead == nil {
		return &InputError{Name: "the closure", Reason: "is nil"}
	}
	poll := l.core.o.PollEvery
	for failures := 0; ; {
		h, g, err := l.core.acquire(ctx, name)
		pause := jitter.Full(poll/10, poll, failures+1)
		if h != nil {
			err = l.core.under(ctx, h, func(ctx context.Context) error { return lead(ctx, l.wrap(h, g)) })
			if h.hasResigned(err) {
				err = nil
			}
			pause += poll // by then all others have asked
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, ErrInvalid), errors.Is(err, ErrNested):
			return err
		case err == nil:
			failures = 0
		default:
			failures++
			if failed != nil {
				failed(ctx, err)
			}
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// hasResigned reports whether err is that of work which stopped since its holder was asked to resign.
func (h *Advisory) hasResigned(err error) bool {
	stopped := errors.Is(err, context.Canceled) || errors.Is(err, ErrResign)
	return stopped && !errors.Is(err, ErrLost) && errors.Is(context.Cause(h.ctx), ErrResign)
}

// sleep returns the cause of the end of ctx if that comes before d is over.
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
