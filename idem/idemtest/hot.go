package idemtest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/idem"
)

func hotRules[T any]() []rule[T] {
	return []rule[T]{
		{"HotKey", "two thousand callers of one key are one execution, all are answered, and other keys go on meanwhile", hotKey[T]},
		{"RefusedInTheProcess", "without Wait a duplicate in the process is refused while the closure runs, on every engine", refusedInTheProcess[T]},
		{"MismatchWhileRunning", "another request under a key that is running is a mismatch at once, even for one that waits", mismatchWhileRunning[T]},
		{"OwnContext", "each caller of a hot key keeps its own context, the first one too", ownContext[T]},
		{"PanicLandsFlight", "a closure that panics or exits leaves the key to those who wait", panicLandsFlight[T]},
		{"ErrorIsOwn", "an error of the closure is that of its caller alone, whatever it says of another database; who waits does the work", errorIsOwn[T]},
		{"FailureIsShared", "who waits for a failure that is an answer gets it", failureIsShared[T]},
		{"OwnBytes", "nobody's answer changes when another caller writes into its own", ownBytes[T]},
		{"HotKeyOfAnotherScope", "calls of equal keys in two scopes are two operations", otherScope[T]},
	}
}

func hotKey[T any](s *suite[T]) {
	keys, runs := idem.New(s.DB, &idem.Options{Wait: time.Minute}), &counter{}
	inside, leave := make(chan struct{}), make(chan struct{})
	let := sync.OnceFunc(func() { close(leave) })
	s.Cleanup(let)
	const callers = 2000
	var wg sync.WaitGroup
	var replays counter
	for range callers {
		wg.Go(func() {
			res, err := idem.Do(s.ctx, keys, key("hot"), func(ctx context.Context, t T) (string, error) {
				close(inside) // a second execution would panic
				<-leave
				return work(s, "hot", runs, "answer")(ctx, t)
			})
			if err != nil || res.Value != "answer" {
				s.Errorf("got %+v, %v", res, err)
			}
			if res.Replayed {
				replays.add()
			}
		})
	}
	<-inside
	if s.DB.Dialect().Capabilities.ConcurrentWriters {
		for i := range 20 {
			_, err := idem.Do(s.soon(), keys, key(fmt.Sprint("cold ", i)), work(s, "cold", &counter{}, i))
			s.must(err)
		}
	}
	let()
	wg.Wait()
	s.count(runs, 1)
	s.count(&replays, callers-1)
	s.wantEffects("hot", 1)
}

func refusedInTheProcess[T any](s *suite[T]) {
	heard := &events{}
	keys, runs := idem.New(s.DB, &idem.Options{Observer: heard}), &counter{}
	release := s.held(keys, "running", nil)
	_, err := idem.Do(s.soon(), keys, key("running"), work(s, "running", runs, "second"))
	s.want(err, idem.ErrInFlight)
	s.must(release())
	if got := heard.kinds(s, ""); got != "idem.claimed idem.in_flight idem.completed " {
		s.Fatalf("heard %q", got)
	}
	s.count(runs, 0)
}

func mismatchWhileRunning[T any](s *suite[T]) {
	keys, runs := idem.New(s.DB, &idem.Options{Wait: time.Minute}), &counter{}
	k := key("running")
	k.Fingerprint = idem.FingerprintOf("first")
	inside, leave, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := idem.Do(s.ctx, keys, k, func(ctx context.Context, t T) (string, error) {
			close(inside)
			<-leave
			return work(s, "first", runs, "first")(ctx, t)
		})
		done <- err
	}()
	<-inside
	other := k
	other.Fingerprint = idem.FingerprintOf("other")
	bounded, cancel := context.WithTimeout(s.ctx, 10*time.Second)
	defer cancel()
	_, err := idem.Do(bounded, keys, other, work(s, "other", runs, "other"))
	close(leave)
	s.must(<-done)
	s.want(err, idem.ErrMismatch)
	if s.DB.Dialect().Capabilities.RowLocks {
		for range 8 {
			s.askTogether(keys, k, other, runs)
		}
	}
	s.count(runs, 1)
}

// askTogether holds up the flight of a right and a wrong request, whichever leads: one that is only asking does not decide
// what the right request is.
func (s *suite[T]) askTogether(keys *idem.Keys[T], k, other idem.Key, runs *counter) {
	s.Helper()
	f := s.begin()
	_, err := s.DB.Tx(f.Tx).Exec(s.ctx, "lock table idem_key in access exclusive mode")
	s.must(err)
	var wg, started sync.WaitGroup
	for i := range 64 {
		started.Add(1)
		wg.Go(func() {
			started.Done()
			if i%2 == 0 {
				if _, err := idem.Do(s.ctx, keys, other, work(s, "other", runs, "other")); !errors.Is(err, idem.ErrMismatch) {
					s.Errorf("the wrong request: %v", err)
				}
				return
			}
			if res, err := idem.Do(s.ctx, keys, k, work(s, "first", runs, "first")); err != nil || res.Value != "first" {
				s.Errorf("the right request: %+v, %v", res, err)
			}
		})
	}
	started.Wait()
	s.must(f.Rollback(s.ctx))
	wg.Wait()
}

func ownContext[T any](s *suite[T]) {
	keys, runs := idem.New(s.DB, &idem.Options{Wait: time.Minute}), &counter{}
	release := s.held(keys, "follower", nil)
	gone, cancel := context.WithCancelCause(s.ctx)
	cancel(errPlain)
	_, err := idem.Do(gone, keys, key("follower"), work(s, "follower", runs, "second"))
	s.want(err, errPlain)
	s.want(s.leaves(keys, "follower"), errPlain)
	s.must(release())

	if s.DB.Dialect().Capabilities.RowLocks {
		s.leavesEarly(keys)
	}

	// The first one goes away in its closure. Those who wait do not go with it.
	first, cancel := context.WithCancelCause(s.ctx)
	inside := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := idem.Do(first, keys, key("leader"), func(ctx context.Context, t T) (string, error) {
			close(inside)
			<-ctx.Done()
			return "", context.Cause(ctx)
		})
		if !errors.Is(err, errPlain) {
			s.Errorf("the first got %v", err)
		}
	})
	<-inside
	for range 8 {
		wg.Go(func() {
			res, err := idem.Do(s.ctx, keys, key("leader"), work(s, "leader", runs, "next"))
			if err != nil || res.Value != "next" {
				s.Errorf("got %+v, %v", res, err)
			}
		})
	}
	cancel(errPlain)
	wg.Wait()
	s.count(runs, 1)
	s.wantEffects("leader", 1)
}

// leavesEarly has a call go away while the first one is still asking.
func (s *suite[T]) leavesEarly(keys *idem.Keys[T]) {
	s.Helper()
	f := s.begin()
	_, err := s.DB.Tx(f.Tx).Exec(s.ctx, "lock table idem_key in access exclusive mode")
	s.must(err)
	asked := make(chan error, 1)
	go func() {
		_, err := idem.Do(s.ctx, keys, key("asking"), work(s, "asking", &counter{}, "first"))
		asked <- err
	}()
	for waits := 0; waits == 0; {
		s.must(s.DB.Conn().QueryRow(s.soon(), "select count(*) from pg_locks where relation = 'idem_key'::regclass and not granted").Scan(&waits))
	}
	err = s.leaves(keys, "asking")
	s.must(f.Rollback(s.ctx))
	s.must(<-asked)
	s.want(err, errPlain)
}

// leaves makes a call whose context ends while it waits.
func (s *suite[T]) leaves(keys *idem.Keys[T], name string) error {
	s.Helper()
	gone, cancel := context.WithTimeoutCause(s.ctx, 10*time.Millisecond, errPlain)
	defer cancel()
	left := make(chan error, 1)
	go func() {
		_, err := idem.Do(gone, keys, key(name), work(s, name, &counter{}, "second"))
		left <- err
	}()
	select {
	case err := <-left:
		return err
	case <-s.soon().Done():
		return errors.New("the call stays although its context has ended")
	}
}

func panicLandsFlight[T any](s *suite[T]) {
	keys := idem.New(s.DB, &idem.Options{Wait: time.Minute})
	for name, end := range map[string]func(){"panic": func() { panic(errPlain) }, "goexit": runtime.Goexit} {
		inside, leave := make(chan struct{}), make(chan struct{})
		runs := &counter{}
		var wg sync.WaitGroup
		wg.Go(func() {
			defer func() { _ = recover() }()
			_, _ = idem.Do(s.ctx, keys, key(name), func(context.Context, T) (string, error) {
				close(inside)
				<-leave
				end()
				return "", nil
			})
		})
		<-inside
		wg.Go(func() {
			res, err := idem.Do(s.ctx, keys, key(name), work(s, name, runs, "next"))
			if err != nil || res.Value != "next" {
				s.Errorf("%s: got %+v, %v", name, res, err)
			}
		})
		close(leave)
		wg.Wait()
		s.count(runs, 1)
	}
}

func errorIsOwn[T any](s *suite[T]) {
	for name, cause := range map[string]error{
		"unavailable": idem.ErrStoreUnavailable, "in flight": &idem.InFlightError{}, "mismatch": &idem.MismatchError{}, "expired": idem.ErrKeyExpired,
	} {
		keys, runs := idem.New(s.DB, &idem.Options{Wait: time.Minute}), &counter{}
		inside, leave := make(chan struct{}), make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := idem.Do(s.ctx, keys, key(name), func(context.Context, T) (string, error) {
				close(inside)
				<-leave
				return "", fmt.Errorf("another database: %w", cause)
			})
			if !errors.Is(err, cause) {
				s.Errorf("%s: the first got %v", name, err)
			}
		})
		<-inside
		var asked sync.WaitGroup
		for range 8 {
			asked.Add(1)
			wg.Go(func() {
				asked.Done()
				res, err := idem.Do(s.ctx, keys, key(name), work(s, name, runs, "next"))
				if err != nil || res.Value != "next" {
					s.Errorf("%s: got %+v, %v", name, res, err)
				}
			})
		}
		asked.Wait()
		for range 100 {
			runtime.Gosched() // so that they wait
		}
		close(leave)
		wg.Wait()
		s.count(runs, 1)
	}
}

func failureIsShared[T any](s *suite[T]) {
	keys, runs := idem.New(s.DB, &idem.Options{Wait: time.Minute}), &counter{}
	inside, leave := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			_, err := idem.Do(s.ctx, keys, key("declined"), func(ctx context.Context, t T) (string, error) {
				runs.add()
				close(inside)
				<-leave
				return "", &idem.Failure{Status: 402, Body: []byte("declined")}
			})
			var f *idem.Failure
			if !errors.As(err, &f) || f.Status != 402 || string(f.Body) != "declined" || holdfast.OutcomeOf(err) != holdfast.NotApplied {
				s.Errorf("got %v", err)
			}
		})
	}
	<-inside
	close(leave)
	wg.Wait()
	s.count(runs, 1)
}

func ownBytes[T any](s *suite[T]) {
	keys := idem.New(s.DB, &idem.Options{Wait: time.Minute})
	inside, leave := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			res, err := idem.Do(s.ctx, keys, key("bytes"), func(context.Context, T) ([]byte, error) {
				close(inside)
				<-leave
				return []byte("answer"), nil
			})
			if err != nil || string(res.Value) != "answer" || string(res.Body) != "answer" {
				s.Errorf("got %+v, %v", res, err)
			}
			for at := range res.Value {
				res.Value[at] = byte('0' + i) // the race detector watches
			}
		})
	}
	<-inside
	close(leave)
	wg.Wait()

	// So it is where the first one finds the answer and gives it on.
	keys = idem.New(s.DB, &idem.Options{Wait: time.Minute})
	let := func() {}
	if s.DB.Dialect().Capabilities.RowLocks {
		f := s.begin()
		_, err := s.DB.Tx(f.Tx).Exec(s.ctx, "lock table idem_key in access exclusive mode")
		s.must(err)
		let = func() { s.must(f.Rollback(s.ctx)) }
	}
	var asked sync.WaitGroup
	for i := range 64 {
		asked.Add(1)
		wg.Go(func() {
			asked.Done()
			res, err := idem.Do(s.ctx, keys, key("bytes"), func(context.Context, T) ([]byte, error) { return nil, errPlain })
			if err != nil || string(res.Value) != "answer" || !res.Replayed {
				s.Errorf("a repetition got %+v, %v", res, err)
			}
			for at := range res.Value {
				res.Value[at] = byte('0' + i)
			}
		})
	}
	asked.Wait()
	let()
	wg.Wait()
}

func otherScope[T any](s *suite[T]) {
	keys := idem.New(s.DB, &idem.Options{Wait: time.Minute})
	var wg sync.WaitGroup
	for i := range 64 {
		scope := fmt.Sprint("tenant ", i%4)
		wg.Go(func() {
			k := idem.Key{Scope: scope, Name: "charge", Value: "guessed"}
			res, err := idem.Do(s.ctx, keys, k, func(ctx context.Context, t T) (string, error) { return scope, s.apply(ctx, t, scope) })
			if err != nil || res.Value != scope {
				s.Errorf("%s got %q, %v", scope, res.Value, err)
			}
		})
	}
	wg.Wait()
	for i := range 4 {
		s.wantEffects(fmt.Sprint("tenant ", i), 1)
	}
}
