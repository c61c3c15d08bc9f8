package idemtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/tx"
)

// processRules are about calls that share nothing but the database. Calls of one Keys share a claim, so each process of a
// rule has a Keys of its own.
func processRules[T any]() []rule[T] {
	return []rule[T]{
		{"WaiterIsAnswered", "a duplicate of another process waits for the answer: it neither gives up early nor runs again when it sees the key free", waiterIsAnswered[T]},
		{"WaiterIsCompared", "another request that has waited for the first in another process is a mismatch, and does not get its answer", waiterIsCompared[T]},
		{"WaitBoundInACrowd", "a duplicate gives up on time while others take and free its key all along", waitBoundInACrowd[T]},
		{"Dies", "a process that dies in the closure leaves nothing behind, and the key is free at once, not after its TTL", dies[T]},
		{"InboxDies", "a handler whose process dies leaves no mark, and the redelivery is handled at once", inboxDies[T]},
	}
}

// waiting calls fn from n processes that wait for the key that release frees, and returns when all have their answer. Where
// the engine can tell, the first is not released before the others have met it.
func (s *suite[T]) waiting(n int, held string, release func() error, fn func(keys *idem.Keys[T])) {
	s.Helper()
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() { fn(idem.New(s.DB, &idem.Options{Wait: time.Minute})) })
	}
	if s.DB.Dialect().Capabilities.AdvisoryLocks {
		last := idem.New(s.DB, &idem.Options{Wait: 100 * time.Millisecond})
		_, err := idem.Do(s.soon(), last, key(held), work(s, held, &counter{}, "late"))
		s.want(err, idem.ErrInFlight)
	}
	s.must(release())
	wg.Wait()
}

func waiterIsAnswered[T any](s *suite[T]) {
	for round := range 5 {
		name, runs := fmt.Sprint("waited for ", round), &counter{}
		release := s.held(idem.New(s.DB, nil), name, nil)
		s.waiting(5, name, release, func(keys *idem.Keys[T]) {
			res, err := idem.Do(s.ctx, keys, key(name), work(s, name, runs, "second"))
			if err != nil || !res.Replayed || res.Value != "first" {
				s.Errorf("got %+v, %v", res, err)
			}
		})
		s.count(runs, 0)
		s.wantEffects(name, 1)
	}
}

func waiterIsCompared[T any](s *suite[T]) {
	k, runs := key("compared"), &counter{}
	k.Fingerprint = idem.FingerprintOf("first")
	other := k
	other.Fingerprint = idem.FingerprintOf("other")
	release := s.heldAt(idem.New(s.DB, nil), k, nil)
	s.waiting(4, "compared", release, func(keys *idem.Keys[T]) {
		if res, err := idem.Do(s.ctx, keys, other, work(s, "compared", runs, "second")); !errors.Is(err, idem.ErrMismatch) {
			s.Errorf("got %+v, %v", res, err)
		}
	})
	s.count(runs, 0)
	s.wantEffects("compared", 1)
}

func waitBoundInACrowd[T any](s *suite[T]) {
	if !s.DB.Dialect().Capabilities.AdvisoryLocks {
		s.Log("duplicates wait for the writer instead")
		return
	}
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	fail := func(context.Context, T) (int, error) { return 0, errPlain }
	var crowd sync.WaitGroup
	for range 4 {
		keys := idem.New(s.DB, nil)
		crowd.Go(func() {
			for ctx.Err() == nil {
				_, _ = idem.Do(ctx, keys, key("crowd"), fail)
			}
		})
	}
	victim := idem.New(s.DB, &idem.Options{Wait: 20 * time.Millisecond})
	for range 20 {
		started := time.Now()
		_, err := idem.Do(s.ctx, victim, key("crowd"), fail)
		if !errors.Is(err, idem.ErrInFlight) && !errors.Is(err, errPlain) || time.Since(started) > 10*time.Second {
			s.Errorf("got %v after %v", err, time.Since(started))
		}
	}
	cancel()
	crowd.Wait()
}

// die ends the session of t, as the server does when the process at the other end has died.
func (s *suite[T]) die(ctx context.Context, t T) error {
	var pid int
	if err := s.DB.Tx(t).QueryRow(ctx, "select pg_backend_pid()").Scan(&pid); err != nil {
		return err
	}
	var ended bool
	if err := s.DB.Conn().QueryRow(ctx, "select pg_terminate_backend($1, 60000)", pid).Scan(&ended); err != nil || !ended {
		return fmt.Errorf("the session did not end: %w", err)
	}
	return nil
}

func dies[T any](s *suite[T]) {
	if !s.DB.Dialect().Capabilities.ConcurrentWriters {
		s.Log("there is no session to end: test/idem kills a process")
		return
	}
	runs, once := &counter{}, s.DB.With(tx.Options{Attempts: 1}) // who is dead does not try again
	_, err := idem.Do(s.ctx, idem.New(once, nil), key("dies"), func(ctx context.Context, t T) (string, error) {
		runs.add()
		return "lost", errors.Join(s.apply(ctx, t, "dies"), s.die(ctx, t))
	})
	if err == nil || holdfast.OutcomeOf(err) != holdfast.NotApplied {
		s.Fatalf("got %v, which is %v", err, holdfast.OutcomeOf(err))
	}
	s.wantEffects("dies", 0)
	res, err := idem.Do(s.ctx, idem.New(s.DB, nil), key("dies"), work(s, "dies", runs, "done"))
	s.must(err)
	if res.Replayed || res.Value != "done" {
		s.Fatalf("got %+v", res)
	}
	s.count(runs, 2)
	s.wantEffects("dies", 1)
}

func inboxDies[T any](s *suite[T]) {
	if !s.DB.Dialect().Capabilities.ConcurrentWriters {
		s.Log("there is no session to end: test/idem kills a process")
		return
	}
	once := s.DB.With(tx.Options{Attempts: 1})
	handled, err := idem.NewInbox(once, "c", nil).Do(s.ctx, "m", func(ctx context.Context, t T) error {
		return errors.Join(s.apply(ctx, t, "dies"), s.die(ctx, t))
	})
	if err == nil || handled {
		s.Fatalf("handled %v, %v", handled, err)
	}
	s.wantEffects("dies", 0)
	for i := range 2 {
		handled, err = idem.NewInbox(s.DB, "c", nil).Do(s.ctx, "m", func(ctx context.Context, t T) error { return s.apply(ctx, t, "dies") })
		s.must(err)
		if handled != (i == 0) {
			s.Fatalf("redelivery %d: handled %v", i+1, handled)
		}
	}
	s.wantEffects("dies", 1)
}
