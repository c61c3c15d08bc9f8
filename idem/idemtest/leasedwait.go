package idemtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/idem"
)

func waitRules() []leasedRule {
	return []leasedRule{
		{"WaitForTheAnswer", "a duplicate of another process waits for the answer of the first, and never runs", leasedWaits},
		{"WaitForFree", "one that waits does the work when the first has given the key up with nothing done", leasedWaitsForFree},
		{"WaitEnds", "a wait is bounded by LeaseOptions.Wait, and by the context", leasedWaitEnds},
		{"WaitEndsInAMismatch", "one that waited does not get the answer to another request", leasedWaitEndsInAMismatch},
		{"WaitInACrowd", "a wait is bounded also where others take and free the key all the time", leasedWaitInACrowd},
		{"WaitStorm", "whoever waits, and whenever the first is through, each key is done once and all get its answer", leasedWaitStorm},
	}
}

// duplicates has n processes call the key while its first execution runs, waits until each has found it busy, and returns what they
// come to.
func (s *leasedSuite) duplicates(n int, name string, o idem.LeaseOptions, first func(context.Context, *idem.Run) (string, error)) (
	results []idem.Result[string], errs []error, firstErr error,
) {
	s.Helper()
	results, errs = make([]idem.Result[string], n), make([]error, n)
	var all sync.WaitGroup
	_, firstErr = idem.DoLeased(s.ctx, s.process(idem.LeaseOptions{}), key(name), func(ctx context.Context, run *idem.Run) (string, error) {
		var claims sync.WaitGroup
		for i := range n {
			claims.Add(1)
			process := idem.NewLeasedOn(&asking{Store: s.store, asked: sync.OnceFunc(claims.Done)}, &o)
			all.Go(func() {
				results[i], errs[i] = idem.DoLeased(s.ctx, process, key(name), paying[*idem.Run](s, name, "second"))
			})
		}
		claims.Wait()
		return first(ctx, run)
	})
	all.Wait()
	return results, errs, firstErr
}

// asking tells when a first claim was answered. It hides whatever else the store can do, so that its processes look for themselves.
type asking struct {
	idem.Store
	asked func()
}

func (a *asking) Claim(ctx context.Context, c idem.Claim) (idem.Record, error) {
	defer a.asked()
	return a.Store.Claim(ctx, c)
}

// B5: the wait is not of a fixed length, after which the duplicate is refused.
func leasedWaits(s *leasedSuite) {
	results, errs, err := s.duplicates(8, "wait", idem.LeaseOptions{Wait: time.Minute}, paying[*idem.Run](s, "wait", "first"))
	s.must(err)
	for i, res := range results {
		if errs[i] != nil || !res.Replayed || res.Value != "first" || string(res.Body) != `"first"` {
			s.Errorf("duplicate %d: got %+v, %v", i, res, errs[i])
		}
	}
	s.wantCharges("wait", 1)
}

func leasedWaitsForFree(s *leasedSuite) {
	gaveUp := errors.New("nothing was done")
	results, errs, err := s.duplicates(4, "freed", idem.LeaseOptions{Wait: time.Minute}, func(context.Context, *idem.Run) (string, error) {
		return "", gaveUp
	})
	s.want(err, gaveUp)
	did := 0
	for i, res := range results {
		if errs[i] != nil || res.Value != "second" {
			s.Errorf("duplicate %d: got %+v, %v", i, res, errs[i])
		}
		if !res.Replayed {
			did++
		}
	}
	if did != 1 {
		s.Errorf("%d did the work", did)
	}
	s.wantCharges("freed", 1)
}

func leasedWaitEnds(s *leasedSuite) {
	const wait = 200 * time.Millisecond
	_, err := idem.DoLeased(s.ctx, s.process(idem.LeaseOptions{}), key("long"), func(ctx context.Context, _ *idem.Run) (string, error) {
		begun := time.Now()
		_, err := idem.DoLeased(s.ctx, s.process(idem.LeaseOptions{Wait: wait}), key("long"), paying[*idem.Run](s, "long", "second"))
		var busy *idem.InFlightError
		if !errors.As(err, &busy) || busy.RetryAfter <= 0 {
			s.Errorf("after its wait: %v", err)
		}
		if waited := time.Since(begun); waited < wait {
			s.Errorf("waited for %v of %v", waited, wait)
		}
		why := errors.New("the client has gone")
		left, cancel := context.WithCancelCause(s.ctx)
		time.AfterFunc(wait, func() { cancel(why) })
		_, err = idem.DoLeased(left, s.process(idem.LeaseOptions{Wait: time.Hour}), key("long"), paying[*idem.Run](s, "long", "second"))
		s.want(err, why)
		return "first", nil
	})
	s.must(err)
	s.wantCharges("long", 0)
}

// B12: the paths that end in a stored answer compare the fingerprint, also that of one who was waiting.
func leasedWaitEndsInAMismatch(s *leasedSuite) {
	mine, other := key("changed"), key("changed")
	mine.Fingerprint, other.Fingerprint = idem.FingerprintOf("100"), idem.FingerprintOf("200")
	gaveUp := errors.New("nothing was done")
	asked, answered := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	_, err := idem.DoLeased(s.ctx, s.process(idem.LeaseOptions{}), mine, func(context.Context, *idem.Run) (string, error) {
		again := false
		waiting := idem.NewLeasedOn(&asking{Store: s.store, asked: func() {
			if again {
				return
			}
			again = true
			close(asked)
			<-answered
		}}, &idem.LeaseOptions{Wait: time.Minute})
		go func() {
			_, err := idem.DoLeased(s.ctx, waiting, mine, paying[*idem.Run](s, "changed", "second"))
			done <- err
		}()
		<-asked
		return "", gaveUp
	})
	s.want(err, gaveUp)
	_, err = idem.DoLeased(s.ctx, s.process(idem.LeaseOptions{}), other, paying[*idem.Run](s, "changed", "other"))
	close(answered)
	s.must(err)
	s.want(<-done, idem.ErrMismatch)
	s.wantCharges("changed", 1)
}

// B37: a loop that tries again looks at its own deadline.
func leasedWaitInACrowd(s *leasedSuite) {
	ctx, stop := context.WithCancel(s.ctx)
	gaveUp := errors.New("nothing was done")
	var all sync.WaitGroup
	begun := make(chan struct{}, 1)
	for range 8 {
		crowd := s.process(idem.LeaseOptions{Wait: time.Hour})
		all.Go(func() {
			for ctx.Err() == nil {
				_, err := idem.DoLeased(ctx, crowd, key("crowd"), func(context.Context, *idem.Run) (string, error) {
					select {
					case begun <- struct{}{}:
					default:
					}
					return "", gaveUp
				})
				if !errors.Is(err, gaveUp) && ctx.Err() == nil {
					s.Error(err)
					return
				}
			}
		})
	}
	<-begun
	const wait = 200 * time.Millisecond
	for range 5 {
		started := time.Now()
		_, err := idem.DoLeased(s.ctx, s.process(idem.LeaseOptions{Wait: wait}), key("crowd"), func(context.Context, *idem.Run) (string, error) {
			return "", gaveUp // it had its turn
		})
		if !errors.Is(err, gaveUp) && !errors.Is(err, idem.ErrInFlight) || errors.Is(err, idem.ErrInFlight) && time.Since(started) < wait {
			s.Errorf("after %v of %v: %v", time.Since(started), wait, err)
		}
	}
	stop()
	all.Wait()
}

// B4: one who sees that the first is through has its answer in the same look.
func leasedWaitStorm(s *leasedSuite) {
	const keys, processes = 40, 4
	var all sync.WaitGroup
	leased := make([]*idem.Leased[*idem.Run], processes)
	for i := range leased {
		leased[i] = s.process(idem.LeaseOptions{Wait: time.Minute})
	}
	for k := range keys {
		name := fmt.Sprint("storm ", k)
		for i := range processes * 2 {
			all.Go(func() {
				res, err := idem.DoLeased(s.ctx, leased[i%processes], key(name), func(context.Context, *idem.Run) (string, error) {
					s.charge(name)
					time.Sleep(rand.N(5 * time.Millisecond)) // the work; nobody relies on how long it takes
					return name, nil
				})
				if err != nil || res.Value != name {
					s.Errorf("got %+v, %v", res, err)
				}
			})
		}
	}
	all.Wait()
	for k := range keys {
		s.wantCharges(fmt.Sprint("storm ", k), 1)
	}
}
