package idemtest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/idem"
)

// A provider is a service outside. It does not honour keys, so that a call too many shows; it can tell what it has done.
type provider struct {
	mu     sync.Mutex // guards charges
	charge map[string]int
}

func (p *provider) call(childKey string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.charge == nil {
		p.charge = map[string]int{}
	}
	p.charge[childKey]++
}

// charges returns how many charges there are, and of how many keys.
func (p *provider) charges() (charges, keys int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range p.charge {
		charges += n
	}
	return charges, len(p.charge)
}

// find is a Reconcile.
func (p *provider) find(_ context.Context, childKey string) (string, idem.Landing, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.charge[childKey] > 0 {
		return "found", idem.Landed, nil
	}
	return "", idem.Absent, nil
}

// step charges at p, and calls then, which may spoil it.
func (p *provider) step(then func() error) idem.External[string] {
	return idem.External[string]{
		Name: "charge",
		Call: func(_ context.Context, childKey string) (string, error) {
			p.call(childKey)
			return "charged", then()
		},
		Reconcile: p.find,
	}
}

func fine() error { return nil }

// charging is a closure with one step.
func charging[H idem.Runner](x idem.External[string]) func(context.Context, H) (string, error) {
	return func(ctx context.Context, run H) (string, error) { return idem.Step(ctx, run, x) }
}

// wantCharged fails unless p has that many charges, all of one key.
func (s *leasedSuite) wantCharged(p *provider, want int) {
	s.Helper()
	if charges, keys := p.charges(); charges != want || keys > 1 {
		s.Fatalf("%d charges of %d keys, want %d of one", charges, keys, want)
	}
}

// A mortal is the store of a process that may die: then nothing that it does reaches the store.
type mortal struct {
	idem.Store

	dead atomic.Bool
}

var errDead = errors.New("the process is dead")

// kill is for the end of a function of the process.
func (m *mortal) kill() error {
	m.dead.Store(true)
	return nil
}

func (m *mortal) check() error {
	if m.dead.Load() {
		return errDead
	}
	return nil
}

func (m *mortal) Renew(ctx context.Context, terms []idem.Term, lease time.Duration) ([]idem.Renewal, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	return m.Store.Renew(ctx, terms, lease)
}

func (m *mortal) Mark(ctx context.Context, t idem.Term, steps []byte) (bool, error) {
	if err := m.check(); err != nil {
		return false, err
	}
	return m.Store.Mark(ctx, t, steps)
}

func (m *mortal) Park(ctx context.Context, t idem.Term, p idem.Parking) (bool, error) {
	if err := m.check(); err != nil {
		return false, err
	}
	return m.Store.Park(ctx, t, p)
}

func (m *mortal) Complete(ctx context.Context, t idem.Term, a idem.Answer, ttl time.Duration) (bool, error) {
	if err := m.check(); err != nil {
		return false, err
	}
	return m.Store.Complete(ctx, t, a, ttl)
}

func (m *mortal) Release(ctx context.Context, t idem.Term) (bool, error) {
	if err := m.check(); err != nil {
		return false, err
	}
	return m.Store.Release(ctx, t)
}

// mortal returns a process that may be killed, with a short lease.
func (s *leasedSuite) mortal() (*idem.Leased[*idem.Run], *mortal) {
	m := &mortal{Store: s.store}
	return idem.NewLeasedOn(m, &idem.LeaseOptions{Lease: short, Wait: time.Minute, TTL: 24 * time.Hour}), m
}

// die calls the key by a process that is killed in fn, and fails unless its caller is told that nobody knows. On a slow machine the
// lease may be over before fn is there: then the next process is the one that dies.
func (s *leasedSuite) die(keys func() (*idem.Leased[*idem.Run], *mortal), k idem.Key, fn func(m *mortal) func(context.Context, *idem.Run) (string, error)) {
	s.Helper()
	for {
		leased, m := keys()
		_, err := idem.DoLeased(s.ctx, leased, k, fn(m))
		if m.dead.Load() {
			s.want(err, idem.ErrOutcomeUnknown)
			return
		}
		if !errors.Is(err, idem.ErrLeaseLost) && !errors.Is(err, idem.ErrInFlight) && !errors.Is(err, idem.ErrOutcomeUnknown) {
			s.Fatal(err)
		}
	}
}

// patient are options of a process that waits for its turn, and comes back soon to what was given up.
var patient = idem.LeaseOptions{Wait: time.Minute, RetryAfter: 10 * time.Millisecond, LongestRetry: 20 * time.Millisecond}

// eventually calls the key until it has an answer.
func (s *leasedSuite) eventually(keys *idem.Leased[*idem.Run], k idem.Key, fn func(context.Context, *idem.Run) (string, error)) idem.Result[string] {
	s.Helper()
	for {
		res, err := idem.DoLeased(s.ctx, keys, k, fn)
		switch {
		case err == nil:
			return res
		case s.ctx.Err() != nil || !errors.Is(err, idem.ErrOutcomeUnknown) && !errors.Is(err, idem.ErrInFlight):
			s.Fatal(err)
		}
	}
}
