package retry_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/holdfast-go/holdfast/retry"
)

func TestBackOffsOfUsers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var made atomic.Int32
		p := retry.New(&retry.Options{Attempts: 9, MaxDelay: 3 * time.Second, BackOff: func() backoff.BackOff {
			made.Add(1)
			return &schedule{delays: []time.Duration{time.Second, time.Hour, -7, backoff.Stop}}
		}})
		if _, err := retry.Do(t.Context(), p, retry.Read, func(context.Context, retry.Attempt) (int, error) { return 1, nil }); err != nil || made.Load() != 0 {
			t.Errorf("a schedule was made without a failure: %v", err)
		}
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				runs, begun := 0, time.Now()
				_, err := retry.Do(t.Context(), p, retry.Read, fails(&runs, make200(errBoom)...))
				if took := time.Since(begun); runs != 4 || took != 4*time.Second || !errors.Is(err, retry.ErrBackOff) || !errors.Is(err, errBoom) {
					t.Errorf("%d runs in %v: %v", runs, took, err)
				}
			})
		}
		all.Wait()
		if made.Load() != 8 {
			t.Errorf("%d schedules for 8 calls", made.Load())
		}
		runs := 0
		none := retry.New(&retry.Options{BackOff: func() backoff.BackOff { return nil }})
		if _, err := retry.Do(t.Context(), none, retry.Read, fails(&runs, errBoom)); err != nil || runs != 2 {
			t.Errorf("without a schedule: %v", err)
		}
	})
}

// schedule must be reset before use, as those of backoff are.
type schedule struct {
	delays []time.Duration
	next   int
	ready  bool
}

func (s *schedule) Reset() { s.next, s.ready = 0, true }

func (s *schedule) NextBackOff() time.Duration {
	if !s.ready {
		panic("not reset")
	}
	s.next++
	return s.delays[s.next-1]
}
