package leasetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lease"
)

// operateRules are about what operators do. A store may lack each verb, if its Capabilities say so.
func operateRules() []rule {
	return []rule{
		{"list", "who holds what is told, in pages, by prefix, and nothing that is free", (*suite).list},
		{"resign", "a holder that is asked to let go is told once, keeps the lease until it has, and nobody else is told", (*suite).resign},
		{"evict", "who is evicted has lost the lease, for renewals and for others, and its token is the past", (*suite).evict},
		{"operators' input", "what cannot be a name or a page is refused before anything is sent", (*suite).operateInput},
	}
}

// offers checks that the store says whether it has a verb, and that one without is refused.
func (s *suite) offers(says, has bool, refused func() error) bool {
	s.Helper()
	if says != has {
		s.Fatalf("the capabilities say %v, and the store has the methods: %v", says, has)
	}
	if !has {
		s.want(refused(), lease.ErrUnsupported)
	}
	return has
}

func (s *suite) list() {
	leases := lease.NewAdvisory(s.store, nil)
	_, has := s.store.(lease.Lister)
	if !s.offers(s.store.Capabilities().Lists, has, func() error { _, err := leases.List(s.ctx, lease.Page{}); return err }) {
		return
	}
	begun := time.Now()
	terms := map[string]lease.Term{}
	for _, name := range []string{"job/b", "job/%", "job/é", "job/a", "job", "job/B", "other", "jobs", "job/gone", "job/kept", "job/ran out"} {
		c := s.claim(name, long)
		switch name {
		case "job/kept":
			c.AtLeast = long
		case "job/ran out":
			c.TTL = time.Millisecond
		}
		terms[name] = s.take(c)
	}
	s.release(terms["job/gone"], true)
	s.release(terms["job/kept"], true)
	s.outlast(s.claim("clock", time.Millisecond))
	s.outlast(s.claim("clock", long)) // by the store's clock, more than "job/ran out" lasts
	var names []string
	for p := (lease.Page{Prefix: "job/", Limit: 2}); ; {
		page, err := leases.List(s.ctx, p)
		s.must(err)
		if len(page) > p.Limit {
			s.Fatalf("a page of %d has %d", p.Limit, len(page))
		}
		for _, h := range page {
			names = append(names, h.Name)
			s.told(h, terms[h.Name], begun)
		}
		if len(page) < p.Limit {
			break
		}
		p.After = page[len(page)-1].Name
	}
	if want := []string{"job/%", "job/B", "job/a", "job/b", "job/kept", "job/é"}; !slices.Equal(names, want) {
		s.Fatalf("listed %q, want %q", names, want)
	}
	all, err := leases.List(s.ctx, lease.Page{})
	s.must(err)
	if len(all) != 10 {
		s.Fatalf("%d are listed, of 10: %+v", len(all), all)
	}
}

// told checks what is told of a lease that was taken after begun.
func (s *suite) told(h lease.Holding, t lease.Term, begun time.Time) {
	s.Helper()
	ok := h.Token == t.Token && !h.Resigning && h.Until.After(h.Since) && h.Since.After(begun.Add(-time.Minute)) &&
		h.Until.Sub(h.Since) < 2*long && h.Released == (h.Name == "job/kept")
	if !h.Released {
		ok = ok && h.Holder == "holder "+h.Name && h.Meta == "meta"
	}
	if !ok {
		s.Fatalf("of %+v is told %+v", t, h)
	}
}

func (s *suite) resign() {
	seen := make(events, 100)
	o := steady
	o.Holder, o.Observer = "me", seen
	leases := lease.NewAdvisory(s.store, &o)
	_, has := s.store.(lease.Resigner)
	if !s.offers(s.store.Capabilities().Resigns, has, func() error { _, err := leases.RequestResign(s.ctx, "a"); return err }) {
		return
	}
	_, err := leases.RequestResign(s.ctx, "a")
	s.want(err, lease.ErrFree)
	other, err := leases.TryAcquire(s.ctx, "b")
	s.must(err)
	asked := 0
	s.must(leases.Run(s.ctx, "a", func(ctx context.Context, h *lease.Advisory) error {
		who, err := leases.RequestResign(s.ctx, "a")
		if err != nil || who.Holder != "me" || who.Name != "a" {
			return fmt.Errorf("asked %+v: %w", who, err)
		}
		<-ctx.Done()
		if cause := context.Cause(ctx); !errors.Is(cause, lease.ErrResign) {
			return fmt.Errorf("the cause is %w", cause)
		}
		for deadline := h.Deadline().Add(3 * steady.RenewEvery); h.Deadline().Before(deadline); { // it takes its time, and is renewed
			s.refused(s.claim("a", long))
			asked += seen.count(lease.EventResign)
		}
		return h.Check()
	}))
	if asked != 1 {
		s.Fatalf("the observer was told %d times", asked)
	}
	s.must(other.Context().Err())
	s.released(other, lease.ReleaseDone)
	_, err = leases.RequestResign(s.ctx, "a")
	s.want(err, lease.ErrFree)
	next, err := leases.TryAcquire(s.ctx, "a") // the wish was for the one before
	s.must(err)
	for deadline := next.Deadline(); !next.Deadline().After(deadline); { // until it was renewed
		s.must(next.Context().Err())
	}
	s.must(next.Context().Err())
	s.released(next, lease.ReleaseDone)
}

func (s *suite) evict() {
	seen := make(events, 100)
	o := steady
	o.Holder, o.Observer = "me", seen
	leases := lease.New(s.store, &o)
	_, has := s.store.(lease.Evicter)
	if !s.offers(s.store.Capabilities().Evicts, has, func() error { _, err := leases.Evict(s.ctx, "a"); return err }) {
		return
	}
	_, err := leases.Evict(s.ctx, "a")
	s.want(err, lease.ErrFree)
	h, err := leases.TryAcquire(s.ctx, "a")
	s.must(err)
	who, err := leases.Evict(s.ctx, "a")
	s.must(err)
	if who.Holder != "me" || who.Token != h.Fence().Token {
		s.Fatalf("evicted %+v", who)
	}
	if n := seen.count(lease.EventEvicted); n != 1 {
		s.Fatalf("the observer was told %d times", n)
	}
	_, err = leases.Evict(s.ctx, "a")
	s.want(err, lease.ErrFree)
	s.renewed(false, lease.Term{Name: "a", Token: h.Fence().Token, Nonce: h.Fence().Nonce, TTL: long})
	next := s.take(s.claim("a", long))
	if next.Token <= h.Fence().Token {
		s.Fatalf("token %d came after %d", next.Token, h.Fence().Token)
	}
	<-h.Context().Done()
	var lost *lease.LostError
	if !errors.As(context.Cause(h.Context()), &lost) || lost.Reason != lease.Stolen {
		s.Fatalf("the cause is %v", context.Cause(h.Context()))
	}
	s.released(h.Advisory, lease.AlreadyLost)
	s.renewed(true, next)
	kept := s.claim("kept", long)
	kept.AtLeast = long
	s.release(s.take(kept), true)
	_, err = leases.Evict(s.ctx, "kept")
	s.must(err)
	s.take(s.claim("kept", long))
}

func (s *suite) operateInput() {
	leases := lease.NewAdvisory(s.store, nil)
	for _, name := range []string{"", "a\x00b", "\xff", strings.Repeat("x", 1025)} {
		_, err := leases.RequestResign(s.ctx, name)
		s.want(err, lease.ErrInvalid)
		_, err = leases.Evict(s.ctx, name)
		s.want(err, lease.ErrInvalid)
	}
	for _, p := range []lease.Page{{Prefix: "\x00"}, {After: "\xff"}, {Limit: -1}, {Limit: 1001}} {
		_, err := leases.List(s.ctx, p)
		s.want(err, lease.ErrInvalid)
	}
}
