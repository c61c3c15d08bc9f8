package lease

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A counted store counts the requests for a lease. The one of that number hangs until its context ends.
type counted struct {
	*memory

	mu    sync.Mutex // guards asked
	asked int
	hangs int
}

func (s *counted) TryAcquire(ctx context.Context, c Claim) (Grant, error) {
	s.mu.Lock()
	s.asked++
	hangs := s.asked == s.hangs
	s.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return Grant{}, ctx.Err()
	}
	return s.memory.TryAcquire(ctx, c)
}

func (s *counted) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// inLine runs a test while a handle of the lease is held and somebody waits for it. hangs is the number of a request that hangs: the
// holder made the first, the one who waits makes the second.
func inLine(t *testing.T, hangs int, test func(t *testing.T, s *counted, leases *Leases[*Held], holder *Held, first context.CancelFunc)) {
	t.Helper()
	inTime(t, func(t *testing.T, m *memory, leases *Leases[*Held], _ func(time.Duration)) {
		s := &counted{memory: m, hangs: hangs}
		leases.core.store = s
		leases.core.o.PollEvery = time.Hour
		holder, err := leases.TryAcquire(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			if h, err := leases.Acquire(ctx, "a"); err == nil {
				_, _ = h.Release(ctx)
			}
		}()
		synctest.Wait()
		test(t, s, leases, holder, cancel)
		cancel()
		time.Sleep(time.Minute) // for what gives back what a request may have taken
	})
}

func release(t *testing.T, h *Held) {
	t.Helper()
	if outcome, err := h.Release(t.Context()); err != nil || outcome != ReleaseDone {
		t.Errorf("released: %v, %v", outcome, err)
	}
}

// Who came first is next, a holder who wants the lease again comes last, and a release is answered by one request.
func TestLine(t *testing.T) {
	t.Parallel()
	inLine(t, 0, func(t *testing.T, s *counted, leases *Leases[*Held], holder *Held, _ context.CancelFunc) {
		const waiting = 5
		var order []int // under the lease
		var all sync.WaitGroup
		for i := range waiting {
			all.Go(func() {
				for turn := range 2 {
					if err := leases.Run(t.Context(), "a", func(context.Context, *Held) error {
						order = append(order, turn*waiting+i)
						time.Sleep(time.Second)
						return nil
					}); err != nil {
						t.Error(err)
					}
				}
			})
			synctest.Wait() // they come one after the other
		}
		if n := s.count(); n != 2 {
			t.Errorf("%d requests of the holder and the first who waits", n)
		}
		release(t, holder)
		all.Wait()
		if !slices.IsSorted(order) || len(order) != 2*waiting {
			t.Errorf("served in the order %v", order)
		}
		if n := s.count(); n != 2+1+2*waiting {
			t.Errorf("%d requests for %d turns", n, 2+2*waiting)
		}
	})
}

// When the first gives up, the next is woken in its place.
func TestTheFirstGivesUp(t *testing.T) {
	t.Parallel()
	inLine(t, 0, func(t *testing.T, s *counted, leases *Leases[*Held], holder *Held, first context.CancelFunc) {
		got := make(chan error, 1)
		go func() { got <- leases.Run(t.Context(), "a", func(context.Context, *Held) error { return nil }) }()
		synctest.Wait()
		first()
		synctest.Wait()
		if n := s.count(); n != 2 {
			t.Errorf("%d requests, want those of the holder and the first: the next knows that this process has the lease", n)
		}
		release(t, holder)
		if err := <-got; err != nil {
			t.Error(err)
		}
	})
}

// A request that hangs keeps nobody behind it for longer than a TTL.
func TestTheFirstHangs(t *testing.T) {
	t.Parallel()
	inLine(t, 2, func(t *testing.T, _ *counted, leases *Leases[*Held], holder *Held, _ context.CancelFunc) {
		release(t, holder)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begun := time.Now()
		if err := leases.Run(ctx, "a", func(context.Context, *Held) error { return nil }); err != nil {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
	})
}

// Who never came to ask knows who has the lease from those before it.
func TestTheEndOfALine(t *testing.T) {
	t.Parallel()
	inLine(t, 0, func(t *testing.T, s *counted, leases *Leases[*Held], holder *Held, _ context.CancelFunc) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := leases.Acquire(ctx, "a")
		if !errors.Is(err, ErrHeld) || !errors.Is(err, context.DeadlineExceeded) || s.count() != 2 {
			t.Errorf("%d requests, %v", s.count(), err)
		}
		release(t, holder)
	})
}
