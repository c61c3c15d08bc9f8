package idemtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/tx"
)

func raceRules[T any]() []rule[T] {
	return []rule[T]{
		{"Together", "of many calls at once one works; the others are refused or get its answer", together[T]},
		{"RefusedAtOnce", "where the engine can tell, a duplicate is refused while the first is running", refusedAtOnce[T]},
		{"WaitBound", "a duplicate that waits gives up after Options.Wait, or when its context ends", waitBound[T]},
		{"RefusalKeepsForeign", "a refusal leaves the caller's transaction usable", refusalKeepsForeign[T]},
		{"Isolation", "every isolation level keeps one effect for each key", isolation[T]},
		{"OneTable", "a table is the same however it is named, and its keys are not those of another", oneTable[T]},
		{"NoTrace", "a refused call leaves no row behind", noTrace[T]},
		{"WaiterTakesOver", "when the first fails, a waiting duplicate does the work", takesOver[T]},
	}
}

// together is the family of lost races: a claim that is a check and then an act, a loser that is taken for a failure of
// the store, a waiter that runs again since it saw the lock gone and not the answer.
func together[T any](s *suite[T]) {
	for _, wait := range []time.Duration{0, time.Minute} {
		for _, processes := range []int{1, 4, 32} {
			name := fmt.Sprintf("together %v %d", wait, processes)
			runs := &counter{}
			var wg sync.WaitGroup
			start := make(chan struct{})
			for range processes {
				keys := idem.New(s.DB, &idem.Options{Wait: wait})
				for range 32 / processes {
					wg.Go(func() {
						<-start
						res, err := idem.Do(s.ctx, keys, key(name), work(s, name, runs, "answer"))
						switch {
						case err == nil && res.Value == "answer":
						case errors.Is(err, idem.ErrInFlight) && wait == 0:
						default:
							s.Errorf("%s: got %+v, %v", name, res, err)
						}
					})
				}
			}
			close(start)
			wg.Wait()
			s.count(runs, 1)
			s.wantEffects(name, 1)
		}
	}
}

// held runs a first call of the key that stays in its closure until release is called, which returns its error.
func (s *suite[T]) held(keys *idem.Keys[T], name string, result error) (release func() error) {
	s.Helper()
	return s.heldAt(keys, key(name), result)
}

func (s *suite[T]) heldAt(keys *idem.Keys[T], k idem.Key, result error) (release func() error) {
	s.Helper()
	inside, leave, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	let := sync.OnceFunc(func() { close(leave) })
	s.Cleanup(let) // a rule that fails meanwhile must not hang
	go func() {
		_, err := idem.Do(s.ctx, keys, k, func(ctx context.Context, t T) (string, error) {
			if err := s.apply(ctx, t, k.Value); err != nil {
				return "", err
			}
			close(inside)
			<-leave
			return "first", result
		})
		done <- err
	}()
	<-inside
	return func() error {
		let()
		return <-done
	}
}

// soon is for a call that must not wait for the one that is held, which would be for ever.
func (s *suite[T]) soon() context.Context {
	ctx, cancel := context.WithTimeout(s.ctx, 20*time.Second)
	s.Cleanup(cancel)
	return ctx
}

func refusedAtOnce[T any](s *suite[T]) {
	if !s.DB.Dialect().Capabilities.AdvisoryLocks {
		s.Log("duplicates wait for the writer instead")
		return
	}
	heard := &events{}
	keys, runs := idem.New(s.DB, &idem.Options{Observer: heard}), &counter{}
	release := s.held(idem.New(s.DB, nil), "slow", nil)
	_, err := idem.Do(s.soon(), keys, key("slow"), work(s, "slow", runs, "second"))
	var busy *idem.InFlightError
	if !errors.As(err, &busy) || busy.RetryAfter <= 0 {
		s.Fatalf("got %v", err)
	}
	if got := heard.kinds(s, ""); got != "idem.in_flight " {
		s.Fatalf("heard %q", got)
	}
	_, err = idem.Do(s.ctx, keys, key("another"), work(s, "another", runs, "free"))
	s.must(err)
	s.must(release())
	res, err := idem.Do(s.ctx, keys, key("slow"), work(s, "slow", runs, "second"))
	s.must(err)
	if !res.Replayed || res.Value != "first" {
		s.Fatalf("got %+v", res)
	}
	s.count(runs, 1)
}

func waitBound[T any](s *suite[T]) {
	if !s.DB.Dialect().Capabilities.AdvisoryLocks {
		s.Log("duplicates wait for the writer instead")
		return
	}
	release := s.held(idem.New(s.DB, nil), "bound", nil)
	keys, runs := idem.New(s.DB, &idem.Options{Wait: 30 * time.Millisecond}), &counter{}
	started := time.Now()
	_, err := idem.Do(s.soon(), keys, key("bound"), work(s, "bound", runs, "second"))
	s.want(err, idem.ErrInFlight)
	if time.Since(started) < 30*time.Millisecond {
		s.Fatal("it did not wait")
	}
	keys = idem.New(s.DB, &idem.Options{Wait: time.Hour})
	ctx, cancel := context.WithTimeoutCause(s.ctx, 30*time.Millisecond, errPlain)
	defer cancel()
	if _, err = idem.Do(ctx, keys, key("bound"), work(s, "bound", runs, "second")); err == nil || errors.Is(err, idem.ErrInFlight) {
		s.Fatalf("got %v", err)
	}
	s.must(release())
	s.count(runs, 0)
	s.wantEffects("bound", 1)
}

func refusalKeepsForeign[T any](s *suite[T]) {
	if !s.DB.Dialect().Capabilities.AdvisoryLocks {
		s.Log("duplicates wait for the writer instead")
		return
	}
	keys, runs := idem.New(s.DB, nil), &counter{}
	release := s.held(keys, "held", nil)
	f := s.begin()
	s.must(s.apply(s.ctx, f.Tx, "mine"))
	_, err := idem.DoTx(s.soon(), keys, f.Tx, key("held"), work(s, "held", runs, "second"))
	s.want(err, idem.ErrInFlight)
	_, err = idem.NewInbox(s.DB, "c", nil).DoTx(s.ctx, f.Tx, "m", func(ctx context.Context, t T) error { return s.apply(ctx, t, "mine") })
	s.must(err)
	s.must(f.Commit(s.ctx))
	s.must(release())
	s.count(runs, 0)
	s.wantEffects("mine", 2)
	s.wantEffects("held", 1)
}

func isolation[T any](s *suite[T]) {
	for _, level := range s.levels() {
		inbox := idem.NewInbox(s.DB.With(tx.Options{Isolation: level, Attempts: 50}), "c", &idem.InboxOptions{Wait: time.Minute})
		var wg sync.WaitGroup
		for i := range 4 {
			name := fmt.Sprintf("%v %d", level, i)
			for range 6 {
				// Keys of its own, as another process has: calls of one Keys would not race in the database.
				keys := idem.New(s.DB.With(tx.Options{Isolation: level, Attempts: 50}), &idem.Options{Wait: time.Minute})
				wg.Go(func() {
					res, err := idem.Do(s.ctx, keys, key(name), work(s, name, &counter{}, "answer"))
					if err != nil || res.Value != "answer" {
						s.Errorf("%s: got %+v, %v", name, res, err)
					}
					_, err = inbox.Do(s.ctx, name, func(ctx context.Context, t T) error { return s.apply(ctx, t, "message "+name) })
					if err != nil {
						s.Errorf("%s: %v", name, err)
					}
				})
			}
		}
		wg.Wait()
		for i := range 4 {
			name := fmt.Sprintf("%v %d", level, i)
			s.wantEffects(name, 1)
			s.wantEffects("message "+name, 1)
		}
	}
}

func takesOver[T any](s *suite[T]) {
	waiting := &idem.Options{Wait: time.Minute}
	keys := idem.New(s.DB, waiting)
	for name, second := range map[string]*idem.Keys[T]{"the same process": keys, "another": idem.New(s.DB, waiting)} {
		runs := &counter{}
		release := s.held(keys, name, errPlain)
		done := make(chan error, 1)
		go func() {
			res, err := idem.Do(s.ctx, second, key(name), work(s, name, runs, "second"))
			if err == nil && (res.Replayed || res.Value != "second") {
				err = fmt.Errorf("got %+v", res)
			}
			done <- err
		}()
		s.want(release(), errPlain)
		s.must(<-done)
		s.count(runs, 1)
		s.wantEffects(name, 1)
	}
}

// oneTable: two services that name the table in different ways exclude each other all the same.
func oneTable[T any](s *suite[T]) {
	if !s.DB.Dialect().Capabilities.Schemas {
		s.Log("there is one way to name a table")
		return
	}
	var schema string
	s.must(s.DB.Conn().QueryRow(s.ctx, "select current_schema()").Scan(&schema))
	s.must(idem.Migrate(s.ctx, s.DB, idem.Names{Keys: "other"}))
	runs := &counter{}
	release := s.held(idem.New(s.DB, nil), "named", nil)
	_, err := idem.Do(s.soon(), idem.New(s.DB, &idem.Options{Schema: schema}), key("named"), work(s, "named", runs, "second"))
	s.want(err, idem.ErrInFlight)
	s.count(runs, 0)
	_, err = idem.Do(s.soon(), idem.New(s.DB, &idem.Options{Table: "other"}), key("named"), work(s, "other", runs, "free"))
	s.must(err)
	s.must(release())
	s.wantEffects("named", 1)
}

// noTrace: at the levels with one snapshot a claim that is refused must not leave a row behind, whatever the holder does
// meanwhile.
func noTrace[T any](s *suite[T]) {
	if !s.DB.Dialect().Capabilities.IsolationLevels {
		s.Log("there is one isolation level")
		return
	}
	rr := s.DB.With(tx.Options{Isolation: tx.RepeatableRead})
	above := idem.New(rr, nil)
	fail := func(context.Context, T) (int, error) { return 0, errPlain }
	ctx, cancel := context.WithCancel(s.ctx)
	var wg sync.WaitGroup
	for range 3 {
		keys := idem.New(s.DB, nil)
		wg.Go(func() {
			for ctx.Err() == nil {
				_, _ = idem.Do(ctx, keys, key("trace"), fail)
			}
		})
	}
	for range 300 {
		_ = rr.Do(s.ctx, func(ctx context.Context, _ T) error {
			_, err := idem.Do(ctx, above, key("trace"), fail)
			if errors.Is(err, idem.ErrInFlight) {
				return nil // the refusal left the transaction usable
			}
			return err
		})
	}
	cancel()
	wg.Wait()
	var rows int
	s.must(s.DB.Conn().QueryRow(s.ctx, "select count(*) from idem_key").Scan(&rows))
	if rows != 0 {
		s.Fatalf("refused and failed calls left %d rows", rows)
	}
}
