package lease

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"
)

// A Semaphore lets a number of holders in at the same time: each has one of its slots, which is a lease with a fence of its own,
// named after the semaphore with #0, #1, … at the end. It is safe for concurrent use.
//
// A try asks for one slot after the other, in random order, a request each, until one is free: to be refused costs as many round
// trips as there are slots. Whoever waits comes in no order.
type Semaphore[H any] struct {
	leases *Leases[H]
	name   string
	size   atomic.Int64
	err    error
}

// mostSlots bounds what one try costs.
const mostSlots = 100

// NewSemaphore returns the semaphore of name with size slots, up to 100, over leases without Options.Fair. What cannot be used is
// reported by every method. Size is what this process allows: while processes have different sizes, the largest counts.
func NewSemaphore[H any](leases *Leases[H], name string, size int) *Semaphore[H] {
	s := &Semaphore[H]{leases: leases, name: name}
	if s.err = errors.Join(leases.core.err, checkName(name), s.SetSize(size)); leases.core.o.Fair {
		s.err = errors.Join(s.err, &InputError{Name: "Options.Fair", Reason: "is set, and a semaphore has no queue: leave it unset"})
	}
	return s
}

// SetSize changes the number of slots for those who come from now on. Who has a slot keeps it: after a reduction there are more
// holders than slots until those of the slots that went have released them. It returns an [*InputError] if size is not from 1 to 100.
func (s *Semaphore[H]) SetSize(size int) error {
	if size < 1 || size > mostSlots {
		return &InputError{Name: "the size of a semaphore", Reason: fmt.Sprintf("is %d, and must be from 1 to %d", size, mostSlots)}
	}
	s.size.Store(int64(size))
	return nil
}

// slotMark comes between the name of a semaphore and the number of a slot.
const slotMark = "#"

func (s *Semaphore[H]) slot(i int) string { return fmt.Sprint(s.name, slotMark, i) }

// semaphoreOf returns the name of the semaphore that a lease may be a slot of.
func semaphoreOf(name string) string { return name[:max(strings.LastIndex(name, slotMark), 0)] }

// TryAcquire takes a slot, or returns the [*HeldError] of the one that runs out first. Otherwise it is as [Leases.TryAcquire].
func (s *Semaphore[H]) TryAcquire(ctx context.Context) (H, error) {
	h, g, err := s.try(ctx, time.Now(), 1)
	if err != nil {
		var none H
		return none, err
	}
	return s.leases.wrap(h, g), nil
}

// Acquire takes a slot, and waits until one is free or ctx ends. Otherwise it is as [Leases.Acquire].
func (s *Semaphore[H]) Acquire(ctx context.Context) (H, error) {
	h, g, err := s.acquire(ctx)
	if err != nil {
		var none H
		return none, err
	}
	return s.leases.wrap(h, g), nil
}

// Run waits for a slot, calls fn under it, and releases it when fn has returned, as [Leases.Run] does with a lease.
func (s *Semaphore[H]) Run(ctx context.Context, fn func(ctx context.Context, h H) error) error {
	if fn == nil {
		return &InputError{Name: "the closure", Reason: "is nil"}
	}
	h, g, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	return s.leases.core.under(ctx, h, func(ctx context.Context) error { return fn(ctx, s.leases.wrap(h, g)) })
}

func (s *Semaphore[H]) acquire(ctx context.Context) (*Advisory, Grant, error) {
	c, since := s.leases.core, time.Now()
	woken, leave := c.waits.join(s.name)
	defer leave()
	for attempt := 1; ; attempt++ {
		wake := woken()
		h, g, err := s.try(ctx, since, attempt)
		var held *HeldError
		if err == nil || !errors.As(err, &held) {
			return h, g, err
		}
		if cause := c.await(ctx, held, wake); cause != nil {
			return nil, g, fmt.Errorf("%w: %w", err, cause)
		}
	}
}

// try asks for the slots, one after the other.
func (s *Semaphore[H]) try(ctx context.Context, since time.Time, attempt int) (*Advisory, Grant, error) {
	if s.err != nil {
		return nil, Grant{}, s.err
	}
	size := int(s.size.Load())
	for i := range mostSlots {
		if s.leases.core.nested(ctx, s.slot(i)) {
			return nil, Grant{}, ErrNested
		}
	}
	var first *HeldError
	for _, i := range rand.Perm(size) {
		h, g, err := s.leases.core.try(ctx, s.slot(i), "", since, attempt)
		var held *HeldError
		if err == nil || !errors.As(err, &held) {
			return h, g, err
		}
		if first == nil || held.Remaining < first.Remaining {
			first = held
		}
	}
	return nil, Grant{}, first
}
