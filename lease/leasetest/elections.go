package leasetest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/lease"
)

func electionRules() []rule {
	return []rule{
		{"elect", "one leads at a time, and a leader that returns lets others lead", (*suite).elect},
		{"elect waits", "the lease is kept until a leader that was told to stop has returned", (*suite).electWaits},
		{"elect again", "a leader that lost the lease stands again once it has stopped, with a new handle and token", (*suite).electAgain},
		{"elect resigns", "a leader that is asked to resign stops, and another leads next; that is no failure", (*suite).electResigns},
		{"watch", "who only looks is told who leads, and each change of it", (*suite).watch},
		{"hand-over", "who waited for a lease is told whom it has it from", (*suite).handOver},
	}
}

func (s *suite) elect() {
	ctx, cancel := context.WithCancel(s.ctx)
	var leading, terms atomic.Int32
	var mu sync.Mutex
	led := map[int]bool{}
	together(4, func(i int) {
		leases := lease.New(s.store, &lease.Options{PollEvery: 20 * time.Millisecond})
		err := leases.Elect(ctx, "a", func(context.Context, *lease.Held) error {
			if leading.Add(1) != 1 {
				s.Error("two lead")
			}
			mu.Lock()
			led[i] = true
			if len(led) == 4 && terms.Add(1) > 3 {
				cancel()
			}
			mu.Unlock()
			leading.Add(-1)
			if i == 0 {
				return errBroken // is told, and ends nothing
			}
			return nil
		}, func(_ context.Context, err error) {
			if !errors.Is(err, errBroken) {
				s.Errorf("failed was told %v", err)
			}
		})
		s.want(err, context.Canceled)
	})
}

func (s *suite) electWaits() {
	leases := lease.New(s.store, &steady)
	ctx, cancel := context.WithCancel(s.ctx)
	s.want(leases.Elect(ctx, "a", func(ctx context.Context, h *lease.Held) error {
		cancel()
		<-ctx.Done()
		outlive(steady.TTL, func() { s.refused(s.claim("a", long)) }) // it takes its time
		return h.Check()
	}, nil), context.Canceled)
	s.take(s.claim("a", long))
}

func (s *suite) electAgain() {
	store := &thief{FencingStore: s.store, terms: make(chan lease.Term, 100)}
	seen := make(events, 1000)
	o := steady
	o.PollEvery, o.Observer = 20*time.Millisecond, seen
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	var leading atomic.Int32
	var tokens []int64
	failures := 0
	s.want(lease.New(store, &o).Elect(ctx, "a", func(ctx context.Context, h *lease.Held) error {
		if leading.Add(1) != 1 {
			s.Error("it leads twice")
		}
		defer leading.Add(-1)
		tokens = append(tokens, h.Fence().Token)
		if len(tokens) == 3 {
			cancel()
			return nil
		}
		s.release(<-store.terms, true) // as an operator does
		<-ctx.Done()
		s.want(context.Cause(ctx), lease.ErrLost)
		for range 20 { // it takes its time: others may lead, and it must not
			s.release(s.take(s.claim("a", long)), true)
		}
		if n := len(store.terms); n != 0 {
			s.Errorf("the lease was asked for %d times while the leader of the past was still busy", n)
		}
		s.want(h.Check(), lease.ErrLost)
		return nil
	}, func(_ context.Context, err error) {
		s.want(err, lease.ErrLost)
		failures++
	}), context.Canceled)
	if len(tokens) != 3 || tokens[1] <= tokens[0]+20 || tokens[2] <= tokens[1]+20 || failures != 2 {
		s.Fatalf("led with tokens %v, and was told %d failures", tokens, failures)
	}
	got := map[holdfast.EventKind]int{}
	for range len(seen) {
		got[(<-seen).Kind]++
	}
	if got[lease.EventAcquired] != 3 || got[lease.EventLost] != 2 || got[lease.EventReleased] != 3 {
		s.Fatalf("the observer was told %v", got)
	}
}

func (s *suite) electResigns() {
	if _, has := s.store.(lease.Resigner); !has {
		return // see the rule of that name
	}
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	terms := make(chan int, 100)
	together(2, func(i int) {
		o := steady
		o.PollEvery = 600 * time.Millisecond // a tenth is how much later the other may be on a busy machine
		leases := lease.New(s.store, &o)     // of another process
		s.want(leases.Elect(ctx, "a", func(ctx context.Context, _ *lease.Held) error {
			terms <- i
			if len(terms) == 6 {
				cancel()
			} else if _, err := leases.RequestResign(s.ctx, "a"); err != nil {
				return err
			}
			<-ctx.Done()
			return ctx.Err()
		}, func(_ context.Context, err error) { s.Errorf("failed was told %v", err) }), context.Canceled)
	})
	close(terms)
	last := -1
	for i := range terms {
		if i == last {
			s.Fatalf("who resigned led again, and the other stood for election")
		}
		last = i
	}
}

func (s *suite) watch() {
	o := lease.Options{TTL: time.Hour, PollEvery: 20 * time.Millisecond}
	watching := lease.NewAdvisory(s.store, &o)
	nothing := func(context.Context, lease.Holding) {}
	if _, has := s.store.(lease.Lister); !has {
		_, err := watching.Leader(s.ctx, "a")
		s.want(err, lease.ErrUnsupported)
		s.want(watching.Watch(s.ctx, "a", nothing, nil), lease.ErrUnsupported)
		return
	}
	s.want(watching.Watch(s.ctx, "", nothing, nil), lease.ErrInvalid)
	s.want(watching.Watch(s.ctx, "a", nil, nil), lease.ErrInvalid)
	ctx, cancel := context.WithCancel(s.ctx)
	leaders := make(chan lease.Holding, 100)
	ended := make(chan error)
	go func() {
		ended <- watching.Watch(ctx, "a", func(_ context.Context, h lease.Holding) { leaders <- h }, nil)
	}()
	if h := <-leaders; h != (lease.Holding{Name: "a"}) {
		s.Fatalf("before anybody leads, told %+v", h)
	}
	s.take(s.claim("a/longer", long))
	for range 3 {
		t := s.take(s.claim("a", long))
		if h := <-leaders; h.Name != "a" || h.Token != t.Token || h.Holder != "holder a" {
			s.Fatalf("told %+v of %+v", h, t)
		}
		h, err := watching.Leader(s.ctx, "a")
		s.must(err)
		if h.Token != t.Token {
			s.Fatalf("told %+v of %+v", h, t)
		}
		s.renewed(true, t) // is no change
		s.release(t, true)
		if h := <-leaders; h != (lease.Holding{Name: "a"}) {
			s.Fatalf("told %+v of a lease that is free", h)
		}
	}
	_, err := watching.Leader(s.ctx, "a")
	s.want(err, lease.ErrFree)
	cancel()
	s.want(<-ended, context.Canceled)
	if len(leaders) != 0 {
		s.Fatalf("told %+v when nothing had changed", <-leaders)
	}
}

func (s *suite) handOver() {
	seen := make(events, 1000)
	o := lease.Options{Holder: "next", TTL: time.Hour, PollEvery: 10 * time.Millisecond, Observer: seen}
	first := s.take(s.claim("a", long))
	got := make(chan *lease.Held)
	go func() {
		h, err := lease.New(s.store, &o).Acquire(s.ctx, "a")
		if err != nil {
			s.Error(err)
		}
		got <- h
	}()
	for (<-seen).Kind != lease.EventRefused { // it waits
	}
	s.release(first, true)
	h := <-got
	var held *lease.HeldError
	acquired, told := false, false
	for range len(seen) {
		switch e := <-seen; e.Kind {
		case lease.EventAcquired:
			acquired = e.Attempt > 1
		case lease.EventHandOver:
			told = errors.As(e.Err, &held) && held.Token == first.Token && held.Holder == "holder a" && e.Elapsed > 0
		}
	}
	if !acquired || !told {
		s.Fatalf("the observer was told of the acquisition: %v, of the hand-over: %v, from %+v", acquired, told, held)
	}
	s.released(h.Advisory, lease.ReleaseDone)
	_, err := lease.New(s.store, &o).Acquire(s.ctx, "a") // who has not waited has it from nobody
	s.must(err)
	if n := seen.count(lease.EventHandOver); n != 0 {
		s.Fatalf("told %d hand-overs from nobody", n)
	}
}
