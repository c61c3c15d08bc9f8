package retry

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v4"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/jitter"
)

// A call is the state of one Do. Nothing of it leaves the goroutine, so that it stays on the stack.
type call struct {
	p       *Policy
	op      Operation
	attempt Attempt
	nested  bool            // another call tries again
	unknown bool            // some attempt may have had its effect
	began   time.Time       // of the call, if Options.Elapsed needs it
	started time.Time       // of the attempt, if there is an observer
	backoff backoff.BackOff // of Options.BackOff, from the first failure on
	permit  permit
}

// begin prepares the first attempt, or returns why there is none.
func (c *call) begin() error {
	if c.p.o.Elapsed > 0 {
		c.began = time.Now()
	}
	return c.admit()
}

// succeed ends the call after an attempt that returned no error.
func (c *call) succeed(ctx context.Context) {
	c.p.o.Budget.earn()
	c.report(ctx, success)
	if c.attempt.Number > 1 {
		c.observe(ctx, EventRecovered, 0, nil)
	}
}

// fail decides what follows a failed attempt. It returns nil when the next attempt is due, after the wait for it.
func (c *call) fail(ctx context.Context, err error) error {
	v := c.judge(err)
	c.unknown = c.unknown || v.Outcome == holdfast.Unknown
	var cause error
	if ctx.Err() != nil {
		cause = context.Cause(ctx)
	}
	switch {
	case cause != nil:
		c.report(ctx, neutral) // the caller had enough, which says nothing of the target
	case v.Stop != nil && v.Outcome != holdfast.Unknown && !neverAsked(err):
		c.report(ctx, success) // the target is well enough to refuse
	case v.Stop != nil:
		c.report(ctx, neutral)
	default:
		c.report(ctx, failure)
	}
	delay, stop := c.next(ctx, cause, v)
	c.observe(ctx, EventFailed, delay, err)
	if stop == nil {
		if stop = c.wait(ctx, delay); stop == nil {
			return nil
		}
		c.p.o.Budget.giveBack()
	}
	e := &Error{Attempts: c.attempt.Number, Stop: stop, Err: err, After: max(v.After, 0), outcome: c.outcome(v)}
	e.transient = v.Stop == nil && ctx.Err() == nil && stop != ErrBudget && stop != ErrOpen //nolint:errorlint // they are ours
	c.observe(ctx, EventGaveUp, 0, e)
	return e
}

// judge asks what an error means. The place of a probe is free again also if that panics.
func (c *call) judge(err error) Verdict {
	if c.p.o.Breaker == nil {
		return c.p.o.Classify(err)
	}
	judged := false
	defer func() {
		if !judged {
			c.p.o.Breaker.done(c.permit, neutral)
		}
	}()
	v := c.p.o.Classify(err)
	judged = true
	return v
}

// neverAsked tells a refusal by this process, of which the target knows nothing.
func neverAsked(err error) bool {
	var inner *Error
	return errors.As(err, &inner) && inner.Attempts == 0 || errors.Is(err, ErrOpen) || errors.Is(err, holdfast.ErrLockHeld)
}

// outcome is that of all attempts: the last one's proof says nothing of an earlier one whose reply was lost.
func (c *call) outcome(v Verdict) holdfast.Outcome {
	switch {
	case v.Outcome == holdfast.Applied:
		return holdfast.Applied
	case c.op.kind == read:
		return holdfast.NotApplied
	case c.unknown:
		return holdfast.Unknown
	}
	return v.Outcome
}

// next returns the delay before the next attempt, or why there is none. The budget comes last: it must not pay for an
// attempt that something else prevents.
func (c *call) next(ctx context.Context, cause error, v Verdict) (time.Duration, error) {
	o := &c.p.o
	switch {
	case cause != nil:
		return 0, cause
	case v.Stop != nil:
		return 0, v.Stop
	case v.Outcome == holdfast.Applied:
		return 0, ErrPermanent
	}
	if why := c.op.refusal(v.Outcome == holdfast.NotApplied); why != nil {
		return 0, why
	}
	switch {
	case c.nested:
		return 0, ErrNested
	case o.Attempts > 0 && c.attempt.Number >= o.Attempts:
		return 0, ErrAttempts
	}
	delay, ok := c.delay(v.After)
	if !ok {
		return 0, ErrBackOff
	}
	if stop := c.tooLate(ctx, delay); stop != nil {
		return 0, stop
	}
	if !o.Budget.take() {
		return 0, ErrBudget
	}
	return delay, nil
}

// tooLate returns why an attempt after the delay could not take place.
func (c *call) tooLate(ctx context.Context, delay time.Duration) error {
	o := &c.p.o
	if delay == 0 && o.Elapsed <= 0 && o.Breaker == nil {
		return nil // nothing is slept, and fail has looked at the context
	}
	deadline, bounded := ctx.Deadline()
	if !bounded && o.Elapsed <= 0 && o.Breaker == nil {
		return nil
	}
	then := time.Now().Add(delay)
	switch {
	case bounded && !then.Before(deadline):
		return ErrDeadline
	case o.Elapsed > 0 && then.Sub(c.began) > o.Elapsed:
		return ErrElapsed
	case !o.Breaker.admits(then):
		return ErrOpen
	}
	return nil
}

// delay returns the delay after the attempt, in [0, MaxDelay], or false if the schedule ends. What the other side asks for
// is a lower bound, as far as MaxDelay allows; the random part comes on top, since it asked others for the same.
func (c *call) delay(after time.Duration) (time.Duration, bool) {
	o := &c.p.o
	var d time.Duration
	if c.backoff == nil && o.BackOff != nil {
		if c.backoff = o.BackOff(); c.backoff != nil {
			c.backoff.Reset()
		}
	}
	if c.backoff == nil {
		d = jitter.Full(o.BaseDelay, o.MaxDelay, c.attempt.Number)
	} else if d = c.backoff.NextBackOff(); d == backoff.Stop {
		return 0, false
	}
	d, after = min(max(d, 0), o.MaxDelay), min(max(after, 0), o.MaxDelay)
	return after + min(d, o.MaxDelay-after), true
}

// wait waits, and returns why there can be no attempt afterwards.
func (c *call) wait(ctx context.Context, delay time.Duration) error {
	if delay > 0 {
		if err := sleep(ctx, delay); err != nil {
			return err
		}
	}
	return c.admit()
}

func sleep(ctx context.Context, delay time.Duration) error {
	timer := time.NewTimer(delay)
	select {
	case <-timer.C:
	case <-ctx.Done():
		timer.Stop()
	}
	if ctx.Err() != nil { // also when both were ready
		return context.Cause(ctx)
	}
	return nil
}
