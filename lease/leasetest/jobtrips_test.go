package leasetest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/lease"
)

// Round trips of jobs, when the connection has prepared its statements. A bare transaction around the same work has 3.
func TestJobRoundTrips(t *testing.T) {
	t.Parallel()
	r := openRig(t, pgx.QueryExecModeCacheStatement)
	job := lease.NewJob(r.store, "a", &lease.JobOptions{Schedule: lease.Every(time.Hour), Lease: lease.Options{TTL: time.Hour}})
	slot := time.Now().Truncate(time.Hour).Add(-30 * time.Minute) // none of those that the schedule has seen
	ran := func(want bool) func(bool, error) {
		return func(got bool, err error) {
			if got != want || err != nil {
				t.Errorf("ran %v, %v", got, err)
			}
		}
	}
	fine := func(context.Context, *lease.Slot) error { return nil }
	next := func() time.Time {
		slot = slot.Add(-time.Minute)
		return slot
	}
	due := func() {
		_, err := job.Due(t.Context())
		r.must(err)
	}
	due()
	ran(true)(job.Once(r.ctx, time.Now().Truncate(time.Hour).Add(-2*time.Hour), fine))
	for _, pin := range []struct {
		name string
		want int
		call func()
	}{
		{"a run of a slot costs five", 5, func() { ran(true)(job.Once(r.ctx, next(), fine)) }},
		{"a slot that was run costs one", 1, func() { ran(false)(job.Once(r.ctx, slot, fine)) }},
		{"a run in a transaction costs four more than it", 7, func() { ran(true)(job.OnceTx(r.ctx, next(), r.work)) }},
		{"Finish costs one", 9, func() {
			ran(true)(job.Once(r.ctx, next(), func(ctx context.Context, s *lease.Slot) error {
				return r.db.Do(ctx, func(ctx context.Context, tx pgx.Tx) error {
					return errors.Join(job.Finish(ctx, tx, s), r.work(ctx, tx))
				})
			}))
		}},
		{"what is due costs two", 2, due},
	} {
		t.Run(pin.name, func(t *testing.T) {
			r.TB, r.ctx = t, t.Context()
			r.Cold()
			if got := r.WarmAndCold(pin.call); got[0] != pin.want {
				t.Errorf("%d trips, want %d", got[0], pin.want)
			}
		})
	}
}
