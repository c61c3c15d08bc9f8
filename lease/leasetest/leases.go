package leasetest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/lease"
)

func leaseRules() []rule {
	return []rule{
		{"exclusive", "what runs under one lease never runs at the same time", (*suite).exclusive},
		{"try", "TryAcquire does not wait, and says who has the lease", (*suite).try},
		{"waiters wake", "a release wakes who waits in this process", (*suite).waitersWake},
		{"wait ends", "who waits stops with its context, and is told who has the lease", (*suite).waitEnds},
		{"nested", "who holds a lease is refused it, instead of waiting for itself", (*suite).nested},
		{"acquire bounds itself", "the end of the context of an acquisition does not end the lease", (*suite).acquireBounds},
		{"renewals", "a lease outlives its TTL many times while it is held", (*suite).renewals},
		{"one failed renewal", "a renewal that fails once costs nothing", (*suite).oneFailedRenewal},
		{"one unknown", "a renewal that nobody knows of is that of one lease, and tried again", (*suite).oneUnknown},
		{"unreachable", "a lease that cannot be renewed ends before the store could give it away", (*suite).unreachable},
		{"hung renewal", "a renewal that hangs does not keep the lease from ending in time", (*suite).hungRenewal},
		{"taken", "a holder whose lease was taken is told by its next renewal", (*suite).taken},
		{"released on cancelled context", "a release works on a context that has ended", (*suite).releaseDetached},
		{"lost reply", "an acquisition whose reply was lost is released in the background", (*suite).lostReply},
		{"hold limit", "a lease ends at the hold limit, however well it is renewed", (*suite).holdLimit},
		{"panic", "a closure that panics or exits leaves the lease free", (*suite).panics},
		{"run tells", "Run returns the error of the closure, and that the lease was lost", (*suite).runTells},
		{"input", "what cannot be a name or an option is refused before anything is sent", (*suite).input},
	}
}

// short is a lease that ends soon enough for a test to wait for it.
const short = 1200 * time.Millisecond

// steady leases are renewed in time also where the machine has much else to do.
var steady = lease.Options{TTL: 6 * time.Second, RenewEvery: 300 * time.Millisecond}

func (s *suite) exclusive() {
	leases := lease.New(s.store, &lease.Options{TTL: 20 * time.Second, PollEvery: 20 * time.Millisecond})
	others := lease.New(s.store, &lease.Options{TTL: 20 * time.Second, PollEvery: 20 * time.Millisecond}) // another process
	n := 0
	var last int64
	together(16, func(i int) {
		for range 5 {
			from := leases
			if i%2 == 0 {
				from = others
			}
			err := from.Run(s.ctx, "a", func(_ context.Context, h *lease.Held) error {
				n++ // the race detector and the sum would tell
				if h.Fence().Token <= last {
					return fmt.Errorf("token %d after %d", h.Fence().Token, last)
				}
				last = h.Fence().Token
				return nil
			})
			if err != nil {
				s.Error(err)
			}
		}
	})
	if n != 80 {
		s.Fatalf("80 runs counted %d", n)
	}
}

func (s *suite) try() {
	leases := lease.New(s.store, &lease.Options{Holder: "me"})
	h, err := leases.TryAcquire(s.ctx, "a")
	s.must(err)
	s.must(h.Check())
	if left := time.Until(h.Deadline()); left <= 0 || left > 15*time.Second {
		s.Fatalf("the deadline is in %v", left)
	}
	_, err = leases.TryAcquire(s.ctx, "a")
	s.want(err, lease.ErrHeld)
	var held *lease.HeldError
	if !errors.As(err, &held) || held.Holder != "me" || held.Token != h.Fence().Token {
		s.Fatalf("told %+v", held)
	}
	s.released(h.Advisory, lease.ReleaseDone)
	s.released(h.Advisory, lease.AlreadyLost)
	s.want(h.Check(), lease.ErrReleased)
	s.want(context.Cause(h.Context()), lease.ErrReleased)
}

func (s *suite) released(h *lease.Advisory, want lease.Released) {
	s.Helper()
	got, err := h.Release(s.ctx)
	s.must(err)
	if got != want {
		s.Fatalf("the release came to %d, want %d", got, want)
	}
}

func (s *suite) waitersWake() {
	leases := lease.NewAdvisory(s.store, &lease.Options{TTL: time.Hour, PollEvery: time.Hour})
	h, err := leases.TryAcquire(s.ctx, "a")
	s.must(err)
	got := make(chan error, 1)
	seen := &watch{FencingStore: s.store, asked: make(chan struct{}, 1)}
	leases = lease.NewAdvisory(seen, &lease.Options{TTL: time.Hour, PollEvery: time.Hour})
	second, err := leases.TryAcquire(s.ctx, "b")
	s.must(err)
	go func() {
		h, err := leases.Acquire(s.ctx, "b")
		if err == nil {
			_, err = h.Release(s.ctx)
		}
		got <- err
	}()
	<-seen.asked // the first, above
	<-seen.asked // the waiter was refused, or is about to be
	s.released(second, lease.ReleaseDone)
	s.must(<-got)
	s.released(h, lease.ReleaseDone)
}

// watch tells of each request for a lease.
type watch struct {
	lease.FencingStore

	asked chan struct{}
}

func (w *watch) TryAcquire(ctx context.Context, c lease.Claim) (lease.Grant, error) {
	g, err := w.FencingStore.TryAcquire(ctx, c)
	select {
	case w.asked <- struct{}{}:
	case <-ctx.Done():
	}
	return g, err
}

func (s *suite) waitEnds() {
	leases := lease.NewAdvisory(s.store, &lease.Options{Holder: "me", PollEvery: 10 * time.Millisecond})
	h, err := leases.TryAcquire(s.ctx, "a")
	s.must(err)
	ctx, cancel := context.WithTimeout(s.ctx, 200*time.Millisecond)
	defer cancel()
	_, err = leases.Acquire(ctx, "a")
	s.want(err, context.DeadlineExceeded)
	s.want(err, lease.ErrHeld)
	s.released(h, lease.ReleaseDone)
}

func (s *suite) nested() {
	leases := lease.NewAdvisory(s.store, nil)
	s.must(leases.Run(s.ctx, "a", func(ctx context.Context, _ *lease.Advisory) error {
		for name, call := range map[string]func() error{
			"Run":        func() error { return leases.Run(ctx, "a", func(context.Context, *lease.Advisory) error { return nil }) },
			"TryAcquire": func() error { _, err := leases.TryAcquire(ctx, "a"); return err },
		} {
			if err := call(); !errors.Is(err, lease.ErrNested) {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return leases.Run(ctx, "b", func(context.Context, *lease.Advisory) error { return nil })
	}))
}

func (s *suite) acquireBounds() {
	type key struct{}
	ctx, cancel := context.WithCancel(context.WithValue(s.ctx, key{}, "value"))
	h, err := lease.NewAdvisory(s.store, nil).Acquire(ctx, "a")
	s.must(err)
	cancel()
	s.must(h.Check())
	s.must(h.Context().Err())
	if h.Context().Value(key{}) != "value" {
		s.Error("the handle's context has lost the values")
	}
	s.released(h, lease.ReleaseDone)
}

func (s *suite) renewals() {
	h, err := lease.NewAdvisory(s.store, &steady).Acquire(s.ctx, "a")
	s.must(err)
	contender := s.claim("a", long)
	outlive(steady.TTL, func() {
		s.refused(contender)
		s.must(h.Check())
	})
	s.released(h, lease.ReleaseDone)
}

// outlive calls f for longer than ttl, which a lease that nobody renews does not last.
func outlive(ttl time.Duration, f func()) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(ttl * 3 / 2); time.Now().Before(end); <-tick.C {
		f()
	}
}

// A broken store answers renewals as the test says.
type broken struct {
	lease.FencingStore

	renew func(ctx context.Context, try int) error
	tries atomic.Int32
}

func (b *broken) Renew(ctx context.Context, terms []lease.Term) ([]lease.Renewal, error) {
	if err := b.renew(ctx, int(b.tries.Add(1))); err != nil {
		return nil, err
	}
	return b.FencingStore.Renew(ctx, terms)
}

var errBroken = errors.New("the network is down")

func (s *suite) oneFailedRenewal() {
	store := &broken{FencingStore: s.store, renew: func(_ context.Context, try int) error {
		if try == 1 {
			return errBroken
		}
		return nil
	}}
	h, err := lease.NewAdvisory(store, &steady).Acquire(s.ctx, "a")
	s.must(err)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for store.tries.Load() < 4 {
		s.must(h.Check())
		<-tick.C
	}
	s.released(h, lease.ReleaseDone)
}

// A split store knows nothing of the leases of one name: the node that they are on is down.
type split struct {
	lease.FencingStore

	name string
}

func (b *split) Renew(ctx context.Context, terms []lease.Term) ([]lease.Renewal, error) {
	renewals, err := b.FencingStore.Renew(ctx, terms)
	for i := range renewals {
		if terms[i].Name == b.name {
			renewals[i] = lease.Renewal{Err: errBroken}
		}
	}
	return renewals, err
}

func (s *suite) oneUnknown() {
	leases := lease.NewAdvisory(&split{FencingStore: s.store, name: "down"}, &lease.Options{TTL: short})
	down, err := leases.Acquire(s.ctx, "down")
	s.must(err)
	up, err := leases.Acquire(s.ctx, "up")
	s.must(err)
	<-down.Context().Done()
	var lost *lease.LostError
	if !errors.As(context.Cause(down.Context()), &lost) || lost.Reason != lease.Unreachable {
		s.Fatalf("the cause is %v", context.Cause(down.Context()))
	}
	for end := time.Now().Add(2 * short); time.Now().Before(end); {
		s.refused(s.claim("up", long))
		s.must(up.Check())
	}
	s.released(up, lease.ReleaseDone)
}

func (s *suite) unreachable() {
	s.ends(func(context.Context, int) error { return errBroken })
}

func (s *suite) hungRenewal() {
	s.ends(func(ctx context.Context, _ int) error {
		<-ctx.Done()
		return ctx.Err()
	})
}

// ends checks that a lease which renew does not renew ends before a contender gets it.
func (s *suite) ends(renew func(ctx context.Context, try int) error) {
	s.Helper()
	// The margin is one in which a timer fires also on a busy machine.
	o := &lease.Options{TTL: 2 * short, Margin: short * 9 / 10}
	h, err := lease.NewAdvisory(&broken{FencingStore: s.store, renew: renew}, o).Acquire(s.ctx, "a")
	s.must(err)
	s.outlast(s.claim("a", long))
	cause := context.Cause(h.Context())
	var lost *lease.LostError
	if !errors.As(cause, &lost) || lost.Reason != lease.Unreachable {
		s.Fatalf("a contender has the lease, and the holder's context says: %v", cause)
	}
	s.want(h.Check(), lease.ErrLost)
	s.released(h, lease.AlreadyLost)
}

func (s *suite) taken() {
	store := &thief{FencingStore: s.store, terms: make(chan lease.Term, 1)}
	h, err := lease.New(store, &steady).Acquire(s.ctx, "a")
	s.must(err)
	s.release(<-store.terms, true) // as an operator does
	s.take(s.claim("a", long))
	<-h.Context().Done()
	var lost *lease.LostError
	if !errors.As(context.Cause(h.Context()), &lost) || lost.Reason != lease.Stolen {
		s.Fatalf("the cause is %v", context.Cause(h.Context()))
	}
	s.released(h.Advisory, lease.AlreadyLost)
}

// A thief learns the terms that are granted.
type thief struct {
	lease.FencingStore

	terms chan lease.Term
}

func (b *thief) TryAcquire(ctx context.Context, c lease.Claim) (lease.Grant, error) {
	g, err := b.FencingStore.TryAcquire(ctx, c)
	b.terms <- lease.Term{Name: c.Name, Token: g.Token, Nonce: c.Nonce}
	return g, err
}

func (s *suite) releaseDetached() {
	ctx, cancel := context.WithCancel(s.ctx)
	h, err := lease.NewAdvisory(s.store, nil).Acquire(ctx, "a")
	s.must(err)
	cancel()
	got, err := h.Release(ctx)
	s.must(err)
	if got != lease.ReleaseDone {
		s.Fatalf("the release came to %d", got)
	}
	s.take(s.claim("a", long))
}

// A deaf store does what it is asked, and its reply is lost.
type deaf struct{ lease.FencingStore }

func (b *deaf) TryAcquire(ctx context.Context, c lease.Claim) (lease.Grant, error) {
	if _, err := b.FencingStore.TryAcquire(ctx, c); err != nil {
		return lease.Grant{}, err
	}
	return lease.Grant{}, errBroken
}

func (s *suite) lostReply() {
	_, err := lease.NewAdvisory(&deaf{s.store}, &lease.Options{TTL: time.Hour}).TryAcquire(s.ctx, "a")
	s.want(err, errBroken)
	s.outlast(s.claim("a", long))
}

func (s *suite) holdLimit() {
	o := steady
	o.HoldLimit = o.TTL * 5 / 4
	h, err := lease.NewAdvisory(s.store, &o).Acquire(s.ctx, "a")
	s.must(err)
	<-h.Context().Done()
	var lost *lease.LostError
	if !errors.As(context.Cause(h.Context()), &lost) || lost.Reason != lease.HoldLimit {
		s.Fatalf("the cause is %v", context.Cause(h.Context()))
	}
	s.outlast(s.claim("a", long))
}

func (s *suite) panics() {
	leases := lease.NewAdvisory(s.store, &lease.Options{TTL: time.Hour})
	for name, end := range map[string]func(){"panic": func() { panic("a bug") }, "Goexit": runtime.Goexit} {
		var wg sync.WaitGroup
		wg.Add(1)
		go func() {
			defer wg.Done()
			defer func() { _ = recover() }()
			_ = leases.Run(s.ctx, name, func(context.Context, *lease.Advisory) error { end(); return nil })
		}()
		wg.Wait()
		s.take(s.claim(name, long))
	}
}

func (s *suite) runTells() {
	mine := errors.New("the closure's")
	leases := lease.NewAdvisory(s.store, nil)
	s.want(leases.Run(s.ctx, "a", func(context.Context, *lease.Advisory) error { return mine }), mine)
	for _, returned := range []error{nil, mine} {
		failing := &broken{FencingStore: s.store, renew: func(context.Context, int) error { return errBroken }}
		err := lease.NewAdvisory(failing, &lease.Options{TTL: short}).Run(s.ctx, "b", func(ctx context.Context, _ *lease.Advisory) error {
			<-ctx.Done()
			s.want(context.Cause(ctx), lease.ErrLost)
			return returned
		})
		s.want(err, lease.ErrLost)
		s.want(err, errBroken)
		if returned != nil {
			s.want(err, mine)
		}
	}
	ctx, cancel := context.WithCancelCause(s.ctx)
	s.want(leases.Run(ctx, "c", func(ctx context.Context, _ *lease.Advisory) error {
		cancel(mine)
		<-ctx.Done()
		return context.Cause(ctx)
	}), mine)
	s.take(s.claim("c", long))
}

func (s *suite) input() {
	for _, name := range []string{"", "a\x00b", "\xff", strings.Repeat("x", 1025), strings.Repeat("x", 10<<20)} {
		_, err := lease.NewAdvisory(s.store, nil).TryAcquire(s.ctx, name)
		s.want(err, lease.ErrInvalid)
	}
	for _, o := range []lease.Options{
		{TTL: -1},
		{TTL: time.Millisecond},
		{TTL: time.Second, RenewEvery: 400 * time.Millisecond},
		{TTL: time.Second, Margin: time.Second},
		{HoldLimit: -1},
		{AtLeast: -1},
		{Holder: "\x00"},
		{Meta: strings.Repeat("x", 1<<20)},
	} {
		leases := lease.NewAdvisory(s.store, &o)
		_, err := leases.TryAcquire(s.ctx, "a")
		s.want(err, lease.ErrInvalid)
		s.want(leases.Elect(s.ctx, "a", func(context.Context, *lease.Advisory) error { return nil }, nil), lease.ErrInvalid)
	}
	s.want(lease.NewAdvisory(s.store, nil).Run(s.ctx, "a", nil), lease.ErrInvalid)
}
