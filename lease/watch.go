package lease

import (
	"context"
	"errors"
)

// Leader returns who has the lease of name, in one request, or [ErrFree]. The answer is of the past when it arrives: it is for
// those who look, and route requests; what must not happen twice is guarded by the holder's fence.
//
// It also returns [*InputError], [*UnsupportedError], and errors of the store.
func (l *Leases[H]) Leader(ctx context.Context, name string) (Holding, error) {
	if err := errors.Join(l.core.err, checkName(name)); err != nil {
		return Holding{}, err
	}
	s, ok := l.core.store.(Lister)
	if !ok {
		return Holding{}, &UnsupportedError{Verb: "Leader"}
	}
	h, err := s.Look(ctx, name)
	if err == nil && h.Released {
		return Holding{}, ErrFree
	}
	return h, err
}

// Watch tells changed who has the lease of name, at first and then whenever it is somebody else, until ctx ends. Nobody is a
// [Holding] with token 0. It asks about every Options.PollEvery, one request each, and at once when the lease is
// released, if [Leases.Acquire] would be woken by that: who had it for a shorter time may be missed. See [Leases.Leader] for what the answer is worth. changed is called on the
// goroutine of Watch. Errors of the store are told to failed, which may be nil, and end nothing.
//
// It returns the cause of the end of ctx, or [*InputError] and [*UnsupportedError] at once.
func (l *Leases[H]) Watch(
	ctx context.Context, name string, changed func(ctx context.Context, leader Holding), failed func(ctx context.Context, err error),
) error {
	if changed == nil {
		return &InputError{Name: "the function", Reason: "is nil"}
	}
	v := &vigil{core: l.core, name: name, Waiter: l.core.line.Join(name)}
	defer v.Leave()
	last := int64(-1)
	for {
		leader, err := l.Leader(ctx, name)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, ErrInvalid), errors.Is(err, ErrUnsupported):
			return err
		case err != nil && !errors.Is(err, ErrFree):
			if failed != nil {
				failed(ctx, err)
			}
		case leader.Token != last:
			last = leader.Token
			leader.Name = name
			changed(ctx, leader)
		}
		if err := v.await(ctx, nil); err != nil {
			return err
		}
	}
}
