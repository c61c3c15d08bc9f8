package idemtest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/idem"
)

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
