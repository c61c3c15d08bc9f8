package lease

import (
	"context"
	"errors"
)

// Run waits for the lease of name, calls fn under it, and releases it when fn has returned, also if it panics. The context of
// fn ends with ctx, and when the lease is lost or its holder is asked to resign; the lease is renewed until fn returns.
//
// It returns the error of fn; with a [*LostError], also if fn returned nil, when the lease was lost before fn was through; and
// the errors of [Leases.Acquire]. A lost reply to the release is no error: the lease runs out. It has the outcome
// of that of fn.
func (l *Leases[H]) Run(ctx context.Context, name string, fn func(ctx context.Context, h H) error) error {
	if fn == nil {
		return &InputError{Name: "the closure", Reason: "is nil"}
	}
	h, g, err := l.core.acquire(ctx, name)
	if err != nil {
		return err
	}
	return l.core.under(ctx, h, func(ctx context.Context) error { return fn(ctx, l.wrap(h, g)) })
}

// under runs fn while h is held.
func (c *core) under(ctx context.Context, h *Advisory, fn func(ctx context.Context) error) (err error) {
	inside, cancel := context.WithCancelCause(h.enter(ctx))
	stop := context.AfterFunc(h.ctx, func() { cancel(context.Cause(h.ctx)) })
	defer func() {
		stop()
		cancel(nil)
		lost := h.Check()
		outcome, _ := h.Release(context.WithoutCancel(ctx)) // its deadline is that of the work
		if lost == nil && outcome == AlreadyLost {
			lost = &LostError{Name: h.term.Name, Token: h.term.Token, Reason: Stolen}
		}
		var why *LostError
		if errors.As(lost, &why) && !errors.Is(err, ErrLost) {
			err = errors.Join(err, why) // in this order: what is known of the work decides about the outcome
		}
	}()
	return fn(inside)
}
