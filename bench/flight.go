package main

import (
	"context"
	"strconv"
	"time"

	"github.com/viccon/sturdyc"
	xsync "golang.org/x/sync/singleflight"
	resenje "resenje.org/singleflight"

	"github.com/holdfast-go/holdfast/singleflight"
)

// flights are calls that share. The function does nothing: what is measured is the sharing. A caller that can leave needs a
// goroutine for the function, so those are compared with each other. Each worker has a key of its own.
var flights = group{
	name: "flight",
	variants: func(*setup) []variant {
		f := newFlightSetup()
		return []variant{
			{"x/sync Do, nobody can leave", f.xsyncDo},
			{"Group.Do, nobody can leave", f.group},
			{"x/sync DoChan and select", f.xsyncChan},
			{"Group.Do, callers can leave", f.groupLeave},
			{"resenje Do, callers can leave", f.resenje},
			{"Cache.Get, a hit", f.cacheHit},
			{"sturdyc GetOrFetch, a hit", f.sturdycHit},
		}
	},
	// Rates, so 1/1.3 and 1/1.5. With several callers each has a key of its own: 1/0.8 of x/sync, which has one lock.
	bars: []bar{
		{at: 1, reference: 0, direct: 0.77, byCallers: map[int]float64{8: 1.25, 32: 1.25}},
		{at: 3, reference: 2, direct: 0.67},
		{at: 5, reference: 6, direct: 1},
	},
	local: true,
}

type flightSetup struct {
	keys    [64]string
	xsync   xsync.Group
	ours    singleflight.Group[string, int]
	peer    resenje.Group[string, int]
	cache   *singleflight.Cache[string, int]
	sturdyc *sturdyc.Client[int]
	leaving context.Context // can end, and does not
	leave   context.CancelFunc
}

func newFlightSetup() *flightSetup {
	f := &flightSetup{sturdyc: sturdyc.New[int](10_000, 16, time.Hour, 10)}
	f.cache = singleflight.NewCache(func(ctx context.Context, _ string) (int, error) { return nothing(ctx) },
		&singleflight.CacheOptions[int]{TTL: time.Hour})
	for i := range f.keys {
		f.keys[i] = "product-" + strconv.Itoa(i)
	}
	f.leaving, f.leave = context.WithCancel(context.Background())
	return f
}

func nothing(context.Context) (int, error) { return 1, nil }

func (f *flightSetup) key(worker int) string { return f.keys[worker%len(f.keys)] }

func (f *flightSetup) xsyncDo(_ context.Context, worker int, _ int64) error {
	_, err, _ := f.xsync.Do(f.key(worker), func() (any, error) { return nothing(context.Background()) })
	return err
}

func (f *flightSetup) xsyncChan(_ context.Context, worker int, _ int64) error {
	select {
	case r := <-f.xsync.DoChan(f.key(worker), func() (any, error) { return nothing(f.leaving) }):
		return r.Err
	case <-f.leaving.Done():
		return f.leaving.Err()
	}
}

func (f *flightSetup) group(_ context.Context, worker int, _ int64) error {
	_, err := f.ours.Do(context.Background(), f.key(worker), nothing)
	return err
}

func (f *flightSetup) groupLeave(_ context.Context, worker int, _ int64) error {
	_, err := f.ours.Do(f.leaving, f.key(worker), nothing)
	return err
}

func (f *flightSetup) resenje(_ context.Context, worker int, _ int64) error {
	_, _, err := f.peer.Do(f.leaving, f.key(worker), nothing)
	return err
}

func (f *flightSetup) cacheHit(_ context.Context, worker int, _ int64) error {
	_, err := f.cache.Get(f.leaving, f.key(worker))
	return err
}

func (f *flightSetup) sturdycHit(_ context.Context, worker int, _ int64) error {
	_, err := f.sturdyc.GetOrFetch(f.leaving, f.key(worker), nothing)
	return err
}
