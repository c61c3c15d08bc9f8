package leasetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/lease"
)

func semaphoreRules() []rule {
	return []rule{
		{"semaphore", "a semaphore has as many holders as it has slots, each with a fence", (*suite).semaphore},
		{"semaphore's holders", "never do more hold a semaphore at the same time than it has slots", (*suite).semaphoreHolders},
		{"semaphore's size", "slots that are added can be taken at once, and those that went are not taken again", (*suite).semaphoreSize},
		{"semaphore at once", "of many that ask at once as many get a slot as are free", (*suite).semaphoreAtOnce},
		{"semaphore's lost reply", "a slot that was taken by a request whose reply was lost is released in the background", (*suite).semaphoreLostReply},
	}
}

// chooses reports whether the store has semaphores.
func (s *suite) chooses() bool {
	s.Helper()
	_, has := s.store.(lease.Chooser)
	return s.offers(s.store.Capabilities().Chooses, has, func() error {
		_, err := lease.NewSemaphore(lease.NewAdvisory(s.store, nil), "a", 3).TryAcquire(s.ctx)
		return err
	})
}

func (s *suite) semaphore() {
	if !s.chooses() {
		return
	}
	leases := lease.New(s.store, &lease.Options{TTL: time.Hour, PollEvery: time.Hour})
	slots := lease.NewSemaphore(leases, "a", 3)
	holders := map[string]*lease.Held{}
	for range 3 {
		h, err := slots.TryAcquire(s.ctx)
		s.must(err)
		if !strings.HasPrefix(h.Name(), "a#") || holders[h.Name()] != nil || h.Fence().Token == 0 || h.Fence().Name != h.Name() {
			s.Fatalf("the slot is %q, with the fence %v", h.Name(), h.Fence())
		}
		holders[h.Name()] = h
	}
	_, err := slots.TryAcquire(s.ctx)
	s.want(err, lease.ErrHeld)
	ctx, cancel := context.WithTimeout(s.ctx, 100*time.Millisecond)
	defer cancel()
	_, err = slots.Acquire(ctx)
	s.want(err, lease.ErrHeld)
	s.want(err, context.DeadlineExceeded)
	waiting, done := make(chan struct{}), make(chan error)
	go func() {
		close(waiting)
		done <- slots.Run(s.ctx, func(ctx context.Context, h *lease.Held) error {
			if _, err := slots.TryAcquire(ctx); !errors.Is(err, lease.ErrNested) {
				return fmt.Errorf("a holder that wants a second slot got: %w", err)
			}
			if h.Name() != "a#1" || h.Fence().Token <= holders["a#1"].Fence().Token {
				return fmt.Errorf("the slot that was released is not %v", h.Fence())
			}
			return h.Check()
		})
	}()
	<-waiting
	s.released(holders["a#1"].Advisory, lease.ReleaseDone) // wakes, or comes before
	s.must(<-done)
	s.want(lease.NewSemaphore(leases, "a", 3).Run(s.ctx, nil), lease.ErrInvalid)
	for _, wrong := range []*lease.Semaphore[*lease.Held]{
		lease.NewSemaphore(leases, "a", 0), lease.NewSemaphore(leases, "a", 101), lease.NewSemaphore(leases, "", 3),
		lease.NewSemaphore(lease.New(s.store, &lease.Options{TTL: -1}), "a", 3),
	} {
		_, err := wrong.TryAcquire(s.ctx)
		s.want(err, lease.ErrInvalid)
	}
}

func (s *suite) semaphoreHolders() {
	if !s.chooses() {
		return
	}
	var holders, most atomic.Int32
	var mu sync.Mutex
	tokens := map[string]int64{}
	together(12, func(int) {
		o := &lease.Options{TTL: 20 * time.Second, PollEvery: 20 * time.Millisecond}
		slots := lease.NewSemaphore(lease.New(s.store, o), "a", 3) // of another process
		for range 5 {
			err := slots.Run(s.ctx, func(_ context.Context, h *lease.Held) error {
				n := holders.Add(1)
				defer holders.Add(-1)
				for seen := most.Load(); n > seen && !most.CompareAndSwap(seen, n); seen = most.Load() {
				}
				mu.Lock()
				defer mu.Unlock()
				if f := h.Fence(); f.Token <= tokens[f.Name] {
					return fmt.Errorf("%v came after token %d", f, tokens[f.Name])
				}
				tokens[h.Name()] = h.Fence().Token
				return nil
			})
			if err != nil {
				s.Error(err)
			}
		}
	})
	if n := most.Load(); n > 3 || len(tokens) != 3 {
		s.Fatalf("%d held a semaphore of 3 at the same time, in %d slots", n, len(tokens))
	}
}

func (s *suite) semaphoreSize() {
	if !s.chooses() {
		return
	}
	slots := lease.NewSemaphore(lease.New(s.store, &lease.Options{TTL: time.Hour}), "a", 1)
	take := func() *lease.Held {
		s.Helper()
		h, err := slots.TryAcquire(s.ctx)
		s.must(err)
		return h
	}
	full := func() {
		s.Helper()
		_, err := slots.TryAcquire(s.ctx)
		s.want(err, lease.ErrHeld)
	}
	holders := map[string]*lease.Held{}
	for size := range 4 {
		s.must(slots.SetSize(size + 1))
		h := take()
		holders[h.Name()] = h
		full()
	}
	s.want(slots.SetSize(0), lease.ErrInvalid)
	full()
	s.must(slots.SetSize(2))
	s.released(holders["a#3"].Advisory, lease.ReleaseDone)
	full()
	s.must(holders["a#2"].Check()) // keeps what it has
	s.released(holders["a#0"].Advisory, lease.ReleaseDone)
	if h := take(); h.Name() != "a#0" {
		s.Fatalf("took %q", h.Name())
	}
	full()
}

// semaphoreAtOnce begins where nothing is known of the slots, and goes on with some that are and some that are not.
func (s *suite) semaphoreAtOnce() {
	if !s.chooses() {
		return
	}
	for round := range 10 {
		leases := lease.New(s.store, &lease.Options{TTL: time.Hour})
		name := fmt.Sprint("at once ", round)
		taken := map[string]bool{}
		for _, size := range []int{5, 12} {
			free := size - len(taken)
			var mu sync.Mutex
			together(free+8, func(int) {
				h, err := lease.NewSemaphore(leases, name, size).TryAcquire(s.ctx) // of another process
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil && taken[h.Name()]:
					s.Errorf("%s has two holders", h.Name())
				case err == nil:
					taken[h.Name()] = true
				case !errors.Is(err, lease.ErrHeld):
					s.Error(err)
				}
			})
			if len(taken) != size {
				s.Fatalf("of %d that asked at once, %d of %d slots are taken", free+8, len(taken), size)
			}
		}
	}
}

// A deafChooser does what it is asked, and its reply is lost.
type deafChooser struct{ lease.FencingStore }

func (b *deafChooser) TryAny(ctx context.Context, c lease.Claim, names []string) (lease.Grant, error) {
	if _, err := b.FencingStore.(lease.Chooser).TryAny(ctx, c, names); err != nil {
		return lease.Grant{}, err
	}
	return lease.Grant{}, errBroken
}

func (s *suite) semaphoreLostReply() {
	if !s.chooses() {
		return
	}
	leases := lease.NewAdvisory(s.store, &lease.Options{TTL: time.Hour, PollEvery: 20 * time.Millisecond})
	first, err := lease.NewSemaphore(leases, "a", 2).Acquire(s.ctx)
	s.must(err)
	deaf := lease.NewAdvisory(&deafChooser{s.store}, &lease.Options{TTL: time.Hour})
	_, err = lease.NewSemaphore(deaf, "a", 2).TryAcquire(s.ctx)
	s.want(err, errBroken)
	second, err := lease.NewSemaphore(leases, "a", 2).Acquire(s.ctx) // once it is released
	s.must(err)
	s.released(second, lease.ReleaseDone)
	s.released(first, lease.ReleaseDone)
}
