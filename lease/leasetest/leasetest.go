// Package leasetest is the conformance suite of package lease: what a [lease.Store] must do, and what leases promise on it. A
// store of another system passes it with one call of [Run] and one of [RunFaults], one on a database of [tx] with one more of [RunGuards].
package leasetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
)

// A rule is one promise.
type rule struct {
	name string
	text string // the promise, in one sentence
	test func(s *suite)
}

// Run checks every promise, each on a store that open makes for it, empty, in parallel.
func Run(t *testing.T, open func(t testing.TB) lease.FencingStore) {
	for _, r := range slices.Concat(storeRules(), leaseRules(), electionRules(), operateRules(), queueRules(), semaphoreRules()) {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			t.Cleanup(cancel)
			r.test(&suite{T: t, ctx: ctx, store: open(t)})
			if t.Failed() {
				t.Fatalf("the rule: %s", r.text)
			}
		})
	}
}

// suite is what a rule works with.
type suite struct {
	*testing.T

	ctx   context.Context //nolint:containedctx // it is that of the test
	store lease.FencingStore
	n     int
}

const long = time.Minute

// claim is one with a nonce of its own.
func (s *suite) claim(name string, ttl time.Duration) lease.Claim {
	s.n++
	return lease.Claim{Name: name, Holder: "holder " + name, Meta: "meta", Nonce: fmt.Sprintf("%s-%d", name, s.n), TTL: ttl}
}

func (s *suite) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *suite) want(err, target error) {
	s.Helper()
	if !errors.Is(err, target) {
		s.Fatalf("got error %v, want %v", err, target)
	}
}

// take acquires what must be free.
func (s *suite) take(c lease.Claim) lease.Term {
	s.Helper()
	g, err := s.store.TryAcquire(s.ctx, c)
	s.must(err)
	if !g.Held {
		s.Fatalf("%q is held: %+v", c.Name, g)
	}
	return lease.Term{Name: c.Name, Token: g.Token, Nonce: c.Nonce, TTL: c.TTL}
}

// outlast tries until a lease with a short TTL has run out, by the clock of the store.
func (s *suite) outlast(c lease.Claim) lease.Term {
	s.Helper()
	for {
		g, err := s.store.TryAcquire(s.ctx, c)
		s.must(err)
		if g.Held {
			return lease.Term{Name: c.Name, Token: g.Token, Nonce: c.Nonce, TTL: c.TTL}
		}
	}
}

func (s *suite) refused(c lease.Claim) lease.Grant {
	s.Helper()
	g, err := s.store.TryAcquire(s.ctx, c)
	s.must(err)
	if g.Held {
		s.Fatalf("%q was given to a second holder", c.Name)
	}
	return g
}

func (s *suite) release(t lease.Term, want bool) {
	s.Helper()
	held, err := s.store.Release(s.ctx, t)
	s.must(err)
	if held != want {
		s.Fatalf("release of %+v: held is %v, want %v", t, held, want)
	}
}

func (s *suite) renewed(want bool, terms ...lease.Term) {
	s.Helper()
	got, err := s.store.Renew(s.ctx, terms)
	s.must(err)
	for i := range terms {
		if got[i].Held != want {
			s.Fatalf("renewal of %+v: held is %v, want %v", terms[i], got[i].Held, want)
		}
	}
}

// together runs fn in n goroutines at once.
func together(n int, fn func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			fn(i)
		})
	}
	close(start)
	wg.Wait()
}
