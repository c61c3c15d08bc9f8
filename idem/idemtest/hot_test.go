package idemtest_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/idem"
)

// Two thousand callers of one key cost the database what one costs. Those that come too late to wait for the first are
// repetitions, of one trip each, and few.
func TestHotKeyCostsOneCall(t *testing.T) {
	r := openRig(t, pgx.QueryExecModeCacheStatement)
	r.keys = idem.New(r.db, &idem.Options{Wait: time.Minute})
	r.do(r.next(), two, nil) // warm
	const callers = 2000
	var calling, done sync.WaitGroup
	runs := 0
	trips := r.Trips(func() {
		calling.Add(callers)
		for range callers {
			done.Go(func() {
				calling.Done()
				res, err := idem.Do(r.ctx, r.keys, r.key("hot"), func(ctx context.Context, t pgx.Tx) (string, error) {
					runs++ // the race detector watches
					calling.Wait()
					return two(ctx, t)
				})
				if err != nil || res.Value != "done" {
					t.Errorf("got %+v, %v", res, err)
				}
			})
		}
		done.Wait()
	})
	if runs != 1 || trips > callers/4 {
		t.Errorf("%d runs, %d trips", runs, trips)
	}
	t.Logf("%d trips for %d callers", trips, callers)
}
