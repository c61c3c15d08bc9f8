package lease

import (
	"context"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/jitter"
	"github.com/holdfast-go/holdfast/internal/wake"
	"github.com/holdfast-go/holdfast/tx"
)

// A waker is a store whose leases, when they are freed in another process, can be heard of here.
type waker interface {
	line(told func(err error)) *wake.Line
	await(ctx context.Context, name string) (held bool, err error)
}

// newLine returns that on which the names of freed leases arrive.
func (c *core) newLine() *wake.Line {
	if s, ok := c.store.(waker); ok {
		return s.line(func(err error) {
			holdfast.Observe(context.Background(), c.o.Observer, holdfast.Event{Kind: tx.EventPolling, Err: err})
		})
	}
	return wake.Alone()
}

// freed wakes those of this process who wait for a lease, or for the semaphore that it may be a slot of.
func (c *core) freed(name string) {
	c.frees.Add(1)
	c.line.Wake(name)
	if semaphore := SemaphoreOf(name); semaphore != "" {
		c.line.Wake(semaphore)
	}
}

// A vigil is the wait of one caller for a lease.
type vigil struct {
	*wake.Waiter

	core *core
	name string
	word time.Time // how long what the store was told needs no repetition
}

// join begins the wait, the first time, and reports whether it was that. Where those who wait for a lease that one of them can have
// have no queue in the store they have one here, so that a process asks once, however many of it wait.
func (v *vigil) join() bool {
	switch {
	case v.Waiter != nil:
		return false
	case v.core.o.Fair:
		v.Waiter = v.core.line.Join(v.name)
	default:
		v.Waiter = v.core.line.JoinInTurn(v.name)
	}
	return true
}

func (v *vigil) leave() {
	if v.Waiter != nil {
		v.Leave()
	}
}

// comeAfter waits for those of this process who are ahead, and for the release if it was one of them who got the lease.
func (v *vigil) comeAfter(ctx context.Context) error {
	if v.core.line.Waiting(v.name) == 0 {
		return nil
	}
	v.join()
	waited, err := v.Turn(ctx, turns*v.core.o.PollEvery)
	if err == nil && waited && v.core.holds(v.name) {
		_, err = v.Await(ctx, v.core.pause(nil))
	}
	return err
}

// turns is how many pauses one waits behind others of its process before it asks by itself: theirs may be stuck.
const turns = 10

// await pauses before the next try, until the lease is freed or the pause is over.
func (v *vigil) await(ctx context.Context, held *HeldError) error {
	waited, err := v.Turn(ctx, turns*v.core.o.PollEvery)
	if err != nil {
		return err
	}
	if !v.core.holds(v.name) { // or its release wakes us
		if told, free := v.tell(ctx, held); free || waited && !told {
			return nil
		}
	}
	woken, err := v.Await(ctx, v.core.pause(held))
	if woken {
		v.word = time.Time{}
	}
	return err
}

// tell has the store notify us when the lease is freed. It reports whether the store knows, and whether the lease is free by now. A
// store that cannot be told, or does not answer, costs a wake-up alone.
func (v *vigil) tell(ctx context.Context, held *HeldError) (told, free bool) {
	s, ok := v.core.store.(waker)
	if !ok || !v.Hears() || held != nil && held.Ahead > 0 { // those ahead say it for all
		return false, false
	}
	now := time.Now()
	if now.Before(v.word) {
		return true, false
	}
	still, err := s.await(ctx, v.name)
	if err != nil || !still {
		v.word = now.Add(v.core.o.PollEvery) // one that is not to be had either, for a guard is in the way, is not asked again at once
		return false, err == nil
	}
	v.word = now.Add(awaited / 2)
	return true, false
}

// pause is how long to wait before a try without having been woken: with jitter, and no longer than the lease has left.
func (c *core) pause(held *HeldError) time.Duration {
	longest := c.o.PollEvery
	if c.o.Fair && held != nil && held.Ahead == 0 {
		longest /= 5 // nobody else takes it while the next in turn sleeps
	}
	if held != nil && held.Remaining > 0 {
		longest = min(longest, held.Remaining+10*time.Millisecond)
	}
	return longest/2 + jitter.Full(longest/2, longest/2, 1)
}

// holds reports whether this process has the lease of name.
func (c *core) holds(name string) bool {
	return c.renewer.Any(func(h *Advisory) bool { return h.term.Name == name })
}
