package main

import (
	"context"
	"errors"
	"sync"

	"github.com/holdfast-go/holdfast/idem"
)

// burst is how many callers a hot key has at once.
const burst = 64

// hot is a group whose operation is a burst: a key that is new and wanted by all its callers, each of whom must get the answer.
var hot = group{
	name: "hot",
	variants: func(s *setup) []variant {
		return []variant{
			{"pgx, 64 callers of a key: wait in the insert, then select", s.hotWait},
			{"idem.Do with Wait, one Keys", s.hotDo},
			{"idem.Do with Wait, a Keys for each caller", s.hotDoApart},
		}
	},
}

// together calls op from all callers of a burst.
func together(op func(caller int) error) error {
	var all sync.WaitGroup
	errs := make([]error, burst)
	for i := range burst {
		all.Go(func() { errs[i] = op(i) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// hotWait is what a careful hand-written service does: a duplicate waits in its insert, on a connection, and then reads.
func (s *setup) hotWait(ctx context.Context, worker int, seq int64) error {
	return together(func(int) error {
		err := s.threeTrips(ctx, worker, seq)
		if !errors.Is(err, errTaken) {
			return err
		}
		var body []byte
		return s.pool.QueryRow(ctx, replaySQL, keyOf(seq)).Scan(&body)
	})
}

func (s *setup) hotDo(ctx context.Context, _ int, seq int64) error {
	return together(func(int) error {
		_, err := idem.Do(ctx, s.hotKeys[0], idemKey(keyOf(seq)), charge(keyOf(seq)))
		return err
	})
}

// hotDoApart has the callers in as many processes.
func (s *setup) hotDoApart(ctx context.Context, _ int, seq int64) error {
	return together(func(caller int) error {
		_, err := idem.Do(ctx, s.hotKeys[caller], idemKey(keyOf(seq)), charge(keyOf(seq)))
		return err
	})
}
