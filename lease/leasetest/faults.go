package leasetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
)

// Faults are what a test does to the server of a store, for what the store says about them in its [lease.Capabilities].
type Faults struct {
	// Delete removes all that the server keeps of a lease.
	Delete func(ctx context.Context, name string) error
	// Failover lets a standby take over that has got nothing of what was acquired. Nil: the store cannot lose what it has
	// answered, which it must say.
	Failover func(ctx context.Context) error
}

// RunFaults checks what a store says of deletion and failover, each time on a store that open makes for it, empty.
func RunFaults(t *testing.T, open func(t testing.TB) (lease.FencingStore, Faults)) {
	for _, r := range []struct {
		name, text string
		test       func(s *suite, f Faults)
	}{
		{"deleted", "who held a lease that was deleted is told so, and tokens rise as the store says", (*suite).deleted},
		{"failover", "after a failover the lease has the holders, and the tokens, that the store says", (*suite).failover},
	} {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			t.Cleanup(cancel)
			store, faults := open(t)
			r.test(&suite{T: t, ctx: ctx, store: store}, faults)
			if t.Failed() {
				t.Fatalf("the rule: %s", r.text)
			}
		})
	}
}

func (s *suite) deleted(f Faults) {
	rises := s.store.Capabilities().TokenSurvivesDeletion != lease.No
	last := s.take(s.claim("a", long))
	for i := range 20 {
		if i%2 == 0 {
			s.release(last, true)
		}
		s.must(f.Delete(s.ctx, "a"))
		s.renewed(false, last)
		next := s.take(s.claim("a", long))
		if rises && next.Token <= last.Token {
			s.Fatalf("token %d came after %d", next.Token, last.Token)
		}
		s.release(last, false)
		s.renewed(false, last)
		s.renewed(true, next)
		last = next
	}
}

func (s *suite) failover(f Faults) {
	can := s.store.Capabilities()
	if f.Failover == nil {
		if can.HoldSurvivesFailover != lease.Yes || can.TokenSurvivesFailover != lease.Yes {
			s.Fatalf("there is no failover that loses anything, and the store says %+v", can)
		}
		return
	}
	if can.HoldSurvivesFailover == lease.Yes || can.TokenSurvivesFailover == lease.Yes {
		s.Fatalf("a failover loses what was answered, and the store says %+v", can)
	}
	h, err := lease.New(s.store, &lease.Options{TTL: short}).Acquire(s.ctx, "a")
	s.must(err)
	s.must(f.Failover(s.ctx))
	next := s.take(s.claim("a", long))
	if can.TokenSurvivesFailover == lease.IfClockRises && next.Token <= h.Fence().Token {
		s.Fatalf("token %d came after %d", next.Token, h.Fence().Token)
	}
	<-h.Context().Done() // the first holder believed in it until its renewal was refused
	var lost *lease.LostError
	if !errors.As(context.Cause(h.Context()), &lost) || lost.Reason != lease.Stolen {
		s.Fatalf("the cause is %v", context.Cause(h.Context()))
	}
	s.released(h.Advisory, lease.AlreadyLost)
	s.renewed(true, next)
}
