package leasetest

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/lease"
)

func storeRules() []rule {
	return []rule{
		{"one holder", "of 64 that ask at once, one gets the lease", (*suite).oneHolder},
		{"held", "who does not get it is told who has it, and for how long", (*suite).held},
		{"same nonce", "a request that comes twice is granted twice, with one token", (*suite).sameNonce},
		{"tokens rise", "tokens rise across release, expiry and renewal, whatever came between", (*suite).tokensRise},
		{"expiry", "a lease that nobody renews can be taken at its end, and not before", (*suite).expiry},
		{"release", "a release frees the lease, once, and for its own term alone", (*suite).release1},
		{"late release", "who lost a lease does not free that of the next, also of the same holder", (*suite).lateRelease},
		{"renew", "a renewal moves the end, and is no acquisition", (*suite).renew},
		{"late renewal", "who lost a lease does not get it back, also when it is free again", (*suite).lateRenewal},
		{"renew many", "1000 leases are renewed in one request, each told for itself", (*suite).renewMany},
		{"renew expired", "a lease that ran out and that nobody took is renewed, if the store says so", (*suite).renewExpired},
		{"at least", "a lease stays taken for its least time, also when it was released, or its holder has died", (*suite).atLeast},
		{"capabilities", "a store says that it has fences, whose guard works if it says so, and that it is ready", (*suite).capabilities},
		{"names", "a name is any text, and two names are two leases", (*suite).names},
	}
}

func (s *suite) oneHolder() {
	for round := range 10 {
		var winners atomic.Int32
		name := fmt.Sprint("race ", round)
		claims := make([]lease.Claim, 64)
		for i := range claims {
			claims[i] = s.claim(name, long)
		}
		together(len(claims), func(i int) {
			g, err := s.store.TryAcquire(s.ctx, claims[i])
			if err != nil {
				s.Error(err)
			} else if g.Held {
				winners.Add(1)
			}
		})
		if n := winners.Load(); n != 1 {
			s.Fatalf("%d of 64 got the lease", n)
		}
	}
}

func (s *suite) held() {
	t := s.take(s.claim("a", long))
	g := s.refused(s.claim("a", long))
	if g.Holder != "holder a" || g.Meta != "meta" || g.Token != t.Token || g.Nonce != "" {
		s.Fatalf("told %+v", g)
	}
	if g.Remaining <= long-30*time.Second || g.Remaining > long {
		s.Fatalf("%v are said to remain of %v", g.Remaining, long)
	}
}

func (s *suite) sameNonce() {
	c := s.claim("a", long)
	first := s.take(c)
	if again := s.take(c); again != first {
		s.Fatalf("granted as %+v and as %+v", first, again)
	}
	s.refused(s.claim("a", long))
}

func (s *suite) tokensRise() {
	var last int64
	for i := range 300 {
		ttl := long
		if i%3 == 0 {
			ttl = time.Millisecond
		}
		t := s.outlast(s.claim("a", ttl))
		if t.Token <= last {
			s.Fatalf("token %d came after %d", t.Token, last)
		}
		last = t.Token
		switch i % 3 {
		case 1:
			s.release(t, true)
		case 2:
			s.renewed(true, t)
			s.release(t, true)
		}
	}
}

func (s *suite) expiry() {
	const ttl = 300 * time.Millisecond
	started := time.Now()
	s.take(s.claim("a", ttl))
	s.outlast(s.claim("a", long))
	if waited := time.Since(started); waited < ttl {
		s.Fatalf("a lease of %v was taken after %v", ttl, waited)
	}
}

func (s *suite) release1() {
	t := s.take(s.claim("a", long))
	other := s.take(s.claim("b", long))
	wrong := t
	wrong.Nonce = "another"
	s.release(wrong, false)
	s.refused(s.claim("a", long))
	s.release(t, true)
	s.release(t, false)
	s.take(s.claim("a", long))
	s.renewed(true, other)
}

func (s *suite) lateRelease() {
	late := s.take(s.claim("a", time.Millisecond))
	next := s.outlast(s.claim("a", long))
	s.release(late, false)
	s.renewed(false, late)
	s.renewed(true, next)
	s.refused(s.claim("a", long))
}

func (s *suite) renew() {
	c := s.claim("a", long)
	t := s.take(c)
	t.TTL = 2 * long
	s.renewed(true, t)
	if g := s.refused(s.claim("a", long)); g.Remaining <= long || g.Token != t.Token {
		s.Fatalf("after a renewal for %v: %+v", t.TTL, g)
	}
	wrong := t
	wrong.Token--
	s.renewed(false, wrong)
	wrong = t
	wrong.Nonce = "another"
	s.renewed(false, wrong)
	s.renewed(false, lease.Term{Name: "nobody's", Token: t.Token, Nonce: t.Nonce, TTL: long})
}

func (s *suite) lateRenewal() {
	late := s.take(s.claim("a", time.Millisecond))
	next := s.outlast(s.claim("a", long))
	s.release(next, true)
	s.renewed(false, late)
	s.take(s.claim("a", long))
}

func (s *suite) renewMany() {
	terms := make([]lease.Term, 1000)
	for i := range terms {
		terms[i] = s.take(s.claim(fmt.Sprint("many ", i), long))
	}
	lost := map[int]bool{0: true, 499: true, 999: true}
	for i := range lost {
		s.release(terms[i], true)
	}
	got, err := s.store.Renew(s.ctx, terms)
	s.must(err)
	for i := range terms {
		if got[i].Held == lost[i] {
			s.Fatalf("renewal %d: held is %v", i, got[i].Held)
		}
	}
}

func (s *suite) renewExpired() {
	t := s.take(s.claim("a", time.Millisecond))
	s.take(s.claim("clock", 5*time.Millisecond))
	s.outlast(s.claim("clock", long)) // by the store's clock, more than t lasts
	s.renewed(s.store.Capabilities().RenewsExpired, t)
}

func (s *suite) atLeast() {
	for name, end := range map[string]func(t lease.Term){
		"released": func(t lease.Term) {
			s.release(t, true)
			s.release(t, false)
		},
		"dead":                 func(lease.Term) {},
		"dead after a renewal": func(t lease.Term) { s.renewed(true, t) },
	} {
		c := s.claim(name, time.Millisecond)
		c.AtLeast = 400 * time.Millisecond
		started := time.Now()
		end(s.take(c))
		s.refused(s.claim(name, long))
		s.outlast(s.claim(name, long))
		if waited := time.Since(started); waited < c.AtLeast {
			s.Fatalf("%s: a lease that is taken for %v at least was taken after %v", name, c.AtLeast, waited)
		}
	}
}

// capabilities leaves what RunGuards and RunFaults check to them.
func (s *suite) capabilities() {
	can := s.store.Capabilities()
	if !can.Fencing {
		s.Fatal("a store without fences is no FencingStore")
	}
	t := s.take(s.claim("a", long))
	f := s.store.Fence(lease.Grant{Held: true, Name: t.Name, Token: t.Token, Nonce: t.Nonce})
	if f.Name != t.Name || f.Token != t.Token || f.Nonce != t.Nonce {
		s.Fatalf("the fence of %+v is %+v", t, f)
	}
	if !can.ExactGuard {
		s.want(f.Guard(s.ctx, nil), lease.ErrNoGuard)
	}
	if store, ok := s.store.(interface {
		Check(ctx context.Context) error
	}); ok {
		s.must(store.Check(s.ctx))
	}
}

func (s *suite) names() {
	names := []string{"'; drop table lease; --", `"`, `\`, "é", "e\u0301", " ", "A", "a", "%", "日本", strings.Repeat("x", 1024), "a\nb"}
	terms := make([]lease.Term, 0, len(names))
	for _, name := range names {
		terms = append(terms, s.take(s.claim(name, long)))
	}
	s.renewed(true, terms...)
	for _, t := range terms {
		s.refused(s.claim(t.Name, long))
		s.release(t, true)
	}
}
