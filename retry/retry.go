package retry

import (
	"context"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
)

// Do runs fn, and again if it failed and op says that this does no harm, the error may pass, and the limits of p allow it. A
// nil p has the default [Options]. An attempt that is waited for is one that can take place: Do does not sleep towards a
// deadline, an open breaker or an empty budget.
//
// The context of fn is that of the attempt: what fn returns must not need it afterwards.
//
// Do returns the value of the last attempt. Its error is nil if that attempt succeeded, and otherwise an [*Error], with the
// cause why there was no further attempt, and the error of the last one: errors.Is and errors.As find both.
// holdfast.OutcomeOf tells whether the operation is proved to have had no effect, over all attempts. A panic or
// runtime.Goexit in fn goes on up.
func Do[T any](ctx context.Context, p *Policy, op Operation, fn func(ctx context.Context, a Attempt) (T, error)) (T, error) {
	if p == nil {
		p = standard
	}
	inner, nested, err := p.enter(ctx, op)
	if err != nil || !p.bare {
		return watched(ctx, inner, &call{p: p, op: op, nested: nested, attempt: Attempt{Key: op.key}}, err, fn)
	}
	v, err := fn(inner, Attempt{Number: 1, Key: op.key})
	if err == nil {
		p.o.Budget.earn()
		return v, nil
	}
	return repeat(ctx, inner, &call{p: p, op: op, nested: nested, attempt: Attempt{Number: 1, Key: op.key}}, fn, v, err)
}

// Run is [Do] for a function without a value.
func Run(ctx context.Context, p *Policy, op Operation, fn func(ctx context.Context, a Attempt) error) error {
	_, err := Do(ctx, p, op, func(ctx context.Context, a Attempt) (struct{}, error) { return struct{}{}, fn(ctx, a) })
	return err
}

// enter returns the context of the attempts, and whether a call around this one tries again; or why there is no attempt.
func (p *Policy) enter(ctx context.Context, op Operation) (inner context.Context, nested bool, err error) {
	switch {
	case ctx.Err() != nil:
		return ctx, false, context.Cause(ctx)
	case op.kind == keyless:
		return ctx, false, ErrNoKey
	case p.o.Nested || p.o.Attempts == 1 || op.kind == once:
		return ctx, false, nil
	case holdfast.Retrying(ctx):
		return ctx, true, nil
	}
	return &holdfast.RetryMark{Context: ctx}, false, nil
}

// watched makes the first attempt where there is more to it than a call of fn, and what follows. err is why there is none.
func watched[T any](ctx, inner context.Context, c *call, err error, fn func(ctx context.Context, a Attempt) (T, error)) (v T, _ error) {
	if err == nil {
		err = c.begin()
	}
	if err != nil {
		return v, c.refused(ctx, err)
	}
	v, err = try(inner, c, fn)
	return repeat(ctx, inner, c, fn, v, err)
}

// repeat makes attempts until one succeeds, or there may be none. v and err are of the last one.
func repeat[T any](ctx, inner context.Context, c *call, fn func(ctx context.Context, a Attempt) (T, error), v T, err error) (T, error) {
	for err != nil {
		if err = c.fail(ctx, err); err != nil {
			return v, err
		}
		v, err = try(inner, c, fn)
	}
	c.succeed(ctx)
	return v, nil
}

// try makes one attempt.
func try[T any](ctx context.Context, c *call, fn func(ctx context.Context, a Attempt) (T, error)) (T, error) {
	c.attempt.Number++
	if c.p.bare {
		return fn(ctx, c.attempt)
	}
	returned := false
	defer func() {
		if !returned { // a panic or Goexit says nothing of the target
			c.p.o.Breaker.done(c.permit, neutral)
		}
	}()
	if c.p.o.Observer != nil {
		c.started = time.Now()
	}
	if d := c.p.o.AttemptTimeout; d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, d, ErrAttemptTimeout)
		defer cancel()
	}
	v, err := fn(ctx, c.attempt)
	returned = true
	return v, err
}
