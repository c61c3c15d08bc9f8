package leasetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/lease"
)

// queueRules are about those who wait in turn. A store may lack them, if its Capabilities say so.
func queueRules() []rule {
	return []rule{
		{"in turn", "who came first is first, nobody comes in between, and who has no place is behind all", (*suite).inTurn},
		{"dead waiter", "who waits no longer keeps nobody from the lease once its place has run out", (*suite).deadWaiter},
		{"place", "who asks again in time keeps its place, and who does not begins at the end", (*suite).place},
		{"fair", "those who wait get the lease in the order in which they came", (*suite).fair},
		{"fair gives up", "who gives up leaves the queue at once, also the one whose turn it is", (*suite).fairGivesUp},
	}
}

// queue returns the store as one with a queue, or nil if it says that it has none.
func (s *suite) queue() lease.Queuer {
	s.Helper()
	q, has := s.store.(lease.Queuer)
	refused := func() error {
		_, err := lease.NewAdvisory(s.store, &lease.Options{Fair: true}).TryAcquire(s.ctx, "a")
		return err
	}
	if !s.offers(s.store.Capabilities().Queues, has, refused) {
		return nil
	}
	return q
}

// asks makes a try of a waiter, and checks how many are ahead. -1 means that it takes the lease.
func (s *suite) asks(q lease.Queuer, id string, ttl time.Duration, ahead int) lease.Term {
	s.Helper()
	c := s.claim("a", long)
	g, err := q.TryInTurn(s.ctx, c, lease.Waiter{ID: id, TTL: ttl})
	s.must(err)
	if g.Held != (ahead < 0) || !g.Held && g.Ahead != ahead {
		s.Fatalf("%q was answered %+v, and not with %d ahead", id, g, ahead)
	}
	return lease.Term{Name: c.Name, Token: g.Token, Nonce: c.Nonce, TTL: c.TTL}
}

// queues has a waiter take a place behind others, whose places may run out at any time.
func (s *suite) queues(q lease.Queuer, id string) {
	s.Helper()
	g, err := q.TryInTurn(s.ctx, s.claim("a", long), lease.Waiter{ID: id, TTL: long})
	s.must(err)
	if g.Held {
		s.Fatalf("%q has the lease of somebody else: %+v", id, g)
	}
}

func (s *suite) inTurn() {
	q := s.queue()
	if q == nil {
		return
	}
	for range 3 {
		t := s.asks(q, "", long, -1)
		s.asks(q, "first", long, 0)
		s.asks(q, "", long, 1)
		s.asks(q, "second", long, 1)
		s.asks(q, "third", long, 2)
		s.asks(q, "second", long, 1)
		s.release(t, true)
		s.asks(q, "third", long, 2)
		s.asks(q, "second", long, 1)
		s.asks(q, "", long, 3)
		t2 := s.asks(q, "first", long, -1)
		if t2.Token <= t.Token {
			s.Fatalf("token %d came after %d", t2.Token, t.Token)
		}
		s.asks(q, "first", long, 2) // again, at the end
		s.asks(q, "third", long, 1)
		s.release(t2, true)
		s.must(q.Leave(s.ctx, "a", "second"))
		s.must(q.Leave(s.ctx, "a", "nobody"))
		s.asks(q, "first", long, 1)
		s.release(s.asks(q, "third", long, -1), true)
		s.release(s.asks(q, "first", long, -1), true)
	}
	other, err := q.TryInTurn(s.ctx, s.claim("b", long), lease.Waiter{ID: "first", TTL: long})
	s.must(err)
	if !other.Held {
		s.Fatalf("the queue of another lease: %+v", other)
	}
}

func (s *suite) deadWaiter() {
	q := s.queue()
	if q == nil {
		return
	}
	t := s.asks(q, "", long, -1)
	s.asks(q, "dead", 300*time.Millisecond, 0)
	s.queues(q, "alive")
	s.release(t, true)
	for {
		g, err := q.TryInTurn(s.ctx, s.claim("a", long), lease.Waiter{ID: "alive", TTL: long})
		s.must(err)
		if g.Held {
			break
		}
		if g.Ahead > 1 {
			s.Fatalf("%d are ahead", g.Ahead)
		}
	}
	s.asks(q, "dead", long, 0)
}

func (s *suite) place() {
	q := s.queue()
	if q == nil {
		return
	}
	t := s.asks(q, "", long, -1)
	s.asks(q, "kept", 4*time.Second, 0)
	s.asks(q, "late", time.Millisecond, 1)
	s.queues(q, "other")
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); {
		s.asks(q, "kept", 4*time.Second, 0)
	}
	s.asks(q, "other", long, 1)
	s.asks(q, "late", long, 2)
	s.release(t, true)
	s.asks(q, "late", long, 2)
	s.asks(q, "kept", long, -1)
}

func (s *suite) fair() {
	if s.queue() == nil {
		return
	}
	h, err := lease.NewAdvisory(s.store, &lease.Options{Fair: true}).TryAcquire(s.ctx, "a")
	s.must(err)
	const waiters = 8
	got := make(chan int, waiters)
	done := make(chan error, waiters)
	for i := range waiters {
		seen := make(events, 10000)
		leases := lease.New(s.store, &lease.Options{Fair: true, PollEvery: 50 * time.Millisecond, Observer: seen}) // of another process
		go func() {
			done <- leases.Run(s.ctx, "a", func(context.Context, *lease.Held) error { got <- i; return nil })
		}()
		for (<-seen).Kind != lease.EventRefused { // it has a place
		}
		_, err := leases.TryAcquire(s.ctx, "a")
		var held *lease.HeldError
		if !errors.As(err, &held) || held.Ahead != i+1 {
			s.Fatalf("behind %d who wait: %v", i+1, err)
		}
	}
	s.released(h, lease.ReleaseDone)
	var order []int
	for range waiters {
		s.must(<-done)
		order = append(order, <-got)
	}
	if !slices.IsSorted(order) {
		s.Fatalf("they came in the order of their numbers, and were served in that of %v", order)
	}
}

func (s *suite) fairGivesUp() {
	if s.queue() == nil {
		return
	}
	o := lease.Options{Fair: true, PollEvery: 20 * time.Second} // a place lasts longer than the test
	h, err := lease.NewAdvisory(s.store, &o).TryAcquire(s.ctx, "a")
	s.must(err)
	ctx, cancel := context.WithCancel(s.ctx)
	for i := range 3 {
		seen := make(events, 100)
		o.Observer = seen
		leases := lease.NewAdvisory(s.store, &o)
		go func() {
			if _, err := leases.Acquire(ctx, "a"); !errors.Is(err, context.Canceled) {
				s.Error(fmt.Errorf("waiter %d: %w", i, err))
			}
		}()
		for (<-seen).Kind != lease.EventRefused { // it has a place
		}
	}
	cancel()
	s.released(h, lease.ReleaseDone)
	o.Observer = nil
	begun := time.Now()
	for { // their places are given up in the background
		h, err := lease.NewAdvisory(s.store, &o).TryAcquire(s.ctx, "a")
		if err == nil {
			s.released(h, lease.ReleaseDone)
			break
		}
		s.want(err, lease.ErrHeld)
		if time.Since(begun) > time.Minute {
			s.Fatalf("%v after all have left: %v", time.Since(begun), err)
		}
	}
}
