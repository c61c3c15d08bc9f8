package lease

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
)

// A late store answers some time after it has done what it was asked.
type late struct {
	*memory

	mu     sync.Mutex
	random *rand.Rand
}

func (s *late) pause() {
	s.mu.Lock()
	d := time.Duration(s.random.Int64N(int64(3 * time.Second)))
	s.mu.Unlock()
	time.Sleep(d)
}

func (s *late) TryAcquire(ctx context.Context, c Claim) (Grant, error) {
	defer s.pause()
	return s.memory.TryAcquire(ctx, c)
}

func (s *late) Renew(ctx context.Context, terms []Term) ([]Renewal, error) {
	defer s.pause()
	return s.memory.Renew(ctx, terms)
}

// Skewed clocks are those of a machine whose time is not that of the store.
type skewed struct {
	mu    sync.Mutex
	begun time.Time
	slow  float64       // how much of each second its clocks lose
	slept time.Duration // while the monotonic clock stood still
	step  time.Duration // of the clock that also moves while the machine sleeps
}

func (s *skewed) passed() time.Duration {
	real := time.Since(s.begun)
	return real - time.Duration(float64(real)*s.slow)
}

func (s *skewed) clock() clock.Clock {
	return clock.Clock{
		Now: func() time.Time {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.begun.Add(s.passed() - s.slept)
		},
		Boot: func() time.Duration {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.passed() + s.step
		},
	}
}

// Whatever the clocks of the holder do, a lease that it may rely on has not run out in the store. A machine sleeps, or the
// clock that shows it is stepped, back or forth: where that clock is the wall clock it does not show the one if it is
// stepped back by the other at the same time, so a schedule has one of the two. Clocks run slow within the margin.
func TestClocks(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	for i := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, i))
			m := &memory{leases: map[string]lived{}}
			clocks := &skewed{begun: time.Now(), slow: 0.05 * random.Float64()}
			leases := New(&late{memory: m, random: rand.New(rand.NewPCG(seed, i))}, &Options{TTL: 10 * time.Second})
			leases.core.clock = clocks.clock()
			h, err := leases.TryAcquire(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			for relied := true; relied && clocks.passed() < 5*time.Minute; {
				d := time.Duration(random.Int64N(int64(6 * time.Second)))
				sleeps := i%2 == 0 && random.IntN(2) == 0
				m.setHang(sleeps || random.IntN(3) == 0) // who sleeps renews nothing
				time.Sleep(d)
				clocks.mu.Lock()
				switch {
				case sleeps:
					clocks.slept += d
				case i%2 == 1:
					clocks.step += time.Duration(random.Int64N(int64(40*time.Second))) - 20*time.Second
				}
				clocks.mu.Unlock()
				relied = h.Check() == nil
				m.mu.Lock()
				left := time.Until(m.leases["a"].until)
				m.mu.Unlock()
				if relied && left <= 0 {
					t.Fatalf("schedule %d of seed %d: it ran out %v ago, and is relied on", i, seed, -left)
				}
			}
			m.setHang(false)
			if _, err := h.Release(t.Context()); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Minute) // for the renewals under way
		})
	}
}

// B17: the wall clocks of contenders are apart by an hour, and one is stepped back. Nothing that they say is compared.
func TestClocksOfContendersDiffer(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, m *memory, leases *Leases[*Held], _ func(time.Duration)) {
		other := New(m, &Options{TTL: 10 * time.Second})
		var back time.Duration
		var mu sync.Mutex
		other.core.clock = clock.Clock{
			Now: time.Now,
			Boot: func() time.Duration { // as where it is the wall clock
				mu.Lock()
				defer mu.Unlock()
				return time.Duration(time.Now().Add(time.Hour - back).UnixNano())
			},
		}
		for range 3 {
			h, err := leases.TryAcquire(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := other.TryAcquire(t.Context(), "a"); err == nil {
				t.Fatal("a clock that is ahead took the lease")
			}
			if _, err := h.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			next, err := other.TryAcquire(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			mu.Lock()
			back += 2 * time.Hour
			mu.Unlock()
			time.Sleep(time.Minute)
			if err := next.Check(); err != nil {
				t.Errorf("after a step back: %v", err)
			}
			if _, err := next.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	})
}
