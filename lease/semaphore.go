package lease

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// A Chooser is a [Store] that finds a free slot of a semaphore by itself. Its Capabilities say so.
type Chooser interface {
	Store
	// TryAny is TryAcquire of the first of names that nobody holds, in one request. Grant.Name says which. If none is free it
	// tells who has the one that runs out first. The names are slots of one semaphore, which Claim.Name is: see [SemaphoreOf].
	TryAny(ctx context.Context, c Claim, names []string) (Grant, error)
}

// slotMark comes between the name of a semaphore and the number of a slot.
const slotMark = "#"

// SemaphoreOf returns the name of the semaphore that a lease may be a slot of, and an empty one if its name is none of a slot. A
// store that keeps leases in many places, as a cluster does, keeps those of a semaphore in one.
func SemaphoreOf(name string) string {
	at := max(strings.LastIndex(name, slotMark), 0)
	i, err := strconv.Atoi(name[min(at+len(slotMark), len(name)):])
	if err != nil || i < 0 || i >= mostSlots || name != name[:at]+slotMark+strconv.Itoa(i) {
		return ""
	}
	return name[:at]
}

// A Semaphore lets a number of holders in at the same time: each has one of its slots, which is a lease with a fence of its own,
// named after the semaphore with #0, #1, … at the end. It is safe for concurrent use.
//
// A try is one request, whether it gets a slot or not. Whoever waits comes in no order.
type Semaphore[H any] struct {
	leases *Leases[H]
	name   string
	slots  [mostSlots]string
	size   atomic.Int64
	err    error
}

// mostSlots bounds what one try costs the store.
const mostSlots = 100

// NewSemaphore returns the semaphore of name with size slots, up to 100, over leases without Options.Fair, in a store that is a
// [Chooser]. What cannot be used is reported by every method. Size is what this process allows: while processes have different
// sizes, the largest counts.
func NewSemaphore[H any](leases *Leases[H], name string, size int) *Semaphore[H] {
	s := &Semaphore[H]{leases: leases, name: name}
	for i := range s.slots {
		s.slots[i] = name + slotMark + strconv.Itoa(i)
	}
	s.err = errors.Join(leases.core.err, checkName(name), s.SetSize(size))
	if leases.core.o.Fair {
		s.err = errors.Join(s.err, &InputError{Name: "Options.Fair", Reason: "is set, and a semaphore has no queue: leave it unset"})
	}
	if _, chooses := leases.core.store.(Chooser); !chooses {
		s.err = errors.Join(s.err, &UnsupportedError{Verb: "choice of a slot, which a Semaphore needs"})
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
	w := c.line.Join(s.name)
	defer w.Leave()
	for attempt := 1; ; attempt++ {
		h, g, err := s.try(ctx, since, attempt)
		var held *HeldError
		if err == nil || !errors.As(err, &held) {
			return h, g, err
		}
		if _, cause := w.Await(ctx, c.pause(held)); cause != nil {
			return nil, g, fmt.Errorf("%w: %w", err, cause)
		}
	}
}

func (s *Semaphore[H]) try(ctx context.Context, since time.Time, attempt int) (*Advisory, Grant, error) {
	if s.err != nil {
		return nil, Grant{}, s.err
	}
	return s.leases.core.try(ctx, wish{name: s.name, slots: s.slots[:s.size.Load()]}, since, attempt)
}
