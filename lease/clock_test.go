package lease

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
)

// A memory is a store in which nothing goes wrong, on the time of the test.
type memory struct {
	mu     sync.Mutex
	token  int64
	leases map[string]lived
	renews int
	hang   bool // renewals do not return before their context ends
}

type lived struct {
	nonce string
	until time.Time
}

func (m *memory) TryAcquire(_ context.Context, c Claim) (Grant, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l, ok := m.leases[c.Name]; ok && time.Now().Before(l.until) {
		return Grant{Name: c.Name, Remaining: time.Until(l.until)}, nil
	}
	m.token++
	m.leases[c.Name] = lived{c.Nonce, time.Now().Add(c.TTL)}
	return Grant{Held: true, Name: c.Name, Token: m.token, Nonce: c.Nonce}, nil
}

func (m *memory) Renew(ctx context.Context, terms []Term) ([]Renewal, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.renews++
	if m.hang {
		m.mu.Unlock()
		<-ctx.Done()
		m.mu.Lock()
		return nil, ctx.Err()
	}
	renewals := make([]Renewal, len(terms))
	for i, t := range terms {
		if l := m.leases[t.Name]; l.nonce == t.Nonce {
			m.leases[t.Name] = lived{t.Nonce, time.Now().Add(t.TTL)}
			renewals[i].Held = true
		}
	}
	return renewals, nil
}

func (m *memory) Release(_ context.Context, t Term) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	held := m.leases[t.Name].nonce == t.Nonce
	if held {
		delete(m.leases, t.Name)
	}
	return held, nil
}

func (m *memory) Capabilities() Capabilities { return Capabilities{Fencing: true} }
func (m *memory) Fence(g Grant) Fence        { return Fence{Name: g.Name, Token: g.Token, Nonce: g.Nonce} }

// inTime runs a test with leases of ten seconds and a margin of one, in a time of its own. sleep suspends the machine.
func inTime(t *testing.T, test func(t *testing.T, m *memory, leases *Leases[*Held], sleep func(time.Duration))) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var asleep time.Duration
		m := &memory{leases: map[string]lived{}}
		leases := New(m, &Options{TTL: 10 * time.Second})
		begun := time.Now()
		leases.core.clock = clock.Clock{Now: time.Now, Boot: func() time.Duration {
			mu.Lock()
			defer mu.Unlock()
			return time.Since(begun) + asleep
		}}
		test(t, m, leases, func(d time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			asleep += d
		})
	})
}

func (m *memory) setHang(hang bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hang = hang
}

// B13: the monotonic clock stands still while the machine sleeps.
func TestSuspended(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, _ *memory, leases *Leases[*Held], sleep func(time.Duration)) {
		h, err := leases.TryAcquire(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		sleep(8 * time.Second)
		if err := h.Check(); err != nil {
			t.Fatalf("after 8 of 9 s: %v", err)
		}
		sleep(time.Second)
		var lost *LostError
		if err := h.Check(); !errors.As(err, &lost) || lost.Reason != Suspended {
			t.Fatalf("after 9 s of sleep: %v", err)
		}
		if !errors.Is(context.Cause(h.Context()), ErrLost) {
			t.Errorf("the context says %v", context.Cause(h.Context()))
		}
	})
}

// A machine that slept notices when it comes to renew, also if nobody checks: the lease is another's by then.
func TestSuspendedIsNoticed(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, _ *memory, leases *Leases[*Held], sleep func(time.Duration)) {
		h, err := leases.TryAcquire(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		sleep(time.Hour)
		begun := time.Now()
		<-h.Context().Done()
		if waited := time.Since(begun); waited > 4*time.Second {
			t.Errorf("noticed after %v", waited)
		}
	})
}

// B9, B11, B11b: the end comes at the deadline of the last renewal that succeeded, while a renewal hangs.
func TestDeadlineIsPunctual(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, m *memory, leases *Leases[*Held], _ func(time.Duration)) {
		begun := time.Now()
		h, err := leases.TryAcquire(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		m.setHang(true)
		<-h.Context().Done()
		if waited := time.Since(begun); waited != 9*time.Second {
			t.Errorf("a lease of 10 s with a margin of 1 s ended after %v", waited)
		}
		time.Sleep(10 * time.Second) // for the renewal
		if _, err := h.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// B5: after an outage that is shorter than the lease, renewals go on; a day later the lease is still held.
func TestOutage(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, m *memory, leases *Leases[*Held], _ func(time.Duration)) {
		h, err := leases.TryAcquire(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			m.setHang(true)
			time.Sleep(5 * time.Second)
			m.setHang(false)
			time.Sleep(20 * time.Second)
		}
		time.Sleep(24 * time.Hour)
		if err := h.Check(); err != nil {
			t.Error(err)
		}
		if _, err := h.Release(t.Context()); err != nil {
			t.Error(err)
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		if perLease := 24 * time.Hour / (10 * time.Second / 3); m.renews > 2*int(perLease) {
			t.Errorf("%d renewals in a day", m.renews)
		}
	})
}

// B7: a reply that took as long as the lease lasts is no lease.
func TestLateGrant(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, m *memory, leases *Leases[*Held], _ func(time.Duration)) {
		leases.core.store = slow{m, 9 * time.Second}
		if _, err := leases.TryAcquire(t.Context(), "a"); !errors.Is(err, ErrLost) {
			t.Errorf("got %v", err)
		}
		synctest.Wait()
		if len(m.leases) != 0 {
			t.Error("the late grant was not given back")
		}
	})
}

type slow struct {
	*memory

	by time.Duration
}

func (s slow) TryAcquire(ctx context.Context, c Claim) (Grant, error) {
	g, err := s.memory.TryAcquire(ctx, c)
	time.Sleep(s.by)
	return g, err
}

// Nothing is left running when the last lease is given back: synctest fails a test that leaves goroutines.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, _ *memory, leases *Leases[*Held], _ func(time.Duration)) {
		for range 3 {
			for _, name := range []string{"a", "b", "c"} {
				h, err := leases.TryAcquire(t.Context(), name)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				if _, err := h.Release(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// A lease that ends while it is being handed out is not renewed for ever.
func TestEndedBeforeItIsRenewed(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, m *memory, leases *Leases[*Held], _ func(time.Duration)) {
		h, err := leases.TryAcquire(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		_ = h.lose(HoldLimit, nil)
		leases.core.renewer.Add(h.Advisory, time.Second)
		time.Sleep(time.Hour) // synctest fails a test that leaves the renewer running
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.renews != 0 {
			t.Errorf("%d renewals", m.renews)
		}
	})
}

// The deadline of the work is not that of the release.
func TestReleaseHasTimeOfItsOwn(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, m *memory, leases *Leases[*Held], _ func(time.Duration)) {
		leases.core.store = slowRelease{m}
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		if err := leases.Run(ctx, "a", func(context.Context, *Held) error { return nil }); err != nil {
			t.Error(err)
		}
		if len(m.leases) != 0 {
			t.Error("the lease was not given back")
		}
	})
}

// slowRelease takes a second, if it has it.
type slowRelease struct{ *memory }

func (s slowRelease) Release(ctx context.Context, t Term) (bool, error) {
	select {
	case <-time.After(time.Second):
		return s.memory.Release(ctx, t)
	case <-ctx.Done():
		return false, ctx.Err()
	}
}
