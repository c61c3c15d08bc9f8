package singleflight_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/singleflight"
)

// A source is what caches load from. Loads take the time loading.
type source struct {
	version atomic.Int64
	loads   atomic.Int64
	fail    atomic.Pointer[error]
}

func (s *source) load(ctx context.Context, _ string) (int64, error) {
	s.loads.Add(1)
	version, fail := s.version.Load(), s.fail.Load() // read first: by the end it is old
	select {
	case <-time.After(loading):
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	if fail != nil {
		return 0, *fail
	}
	return version, nil
}

// exact has no chance in it: TTL without jitter, no early refresh.
func exact(change func(*singleflight.CacheOptions[int64])) *singleflight.CacheOptions[int64] {
	o := &singleflight.CacheOptions[int64]{TTL: time.Minute, Jitter: -1, Beta: -1}
	if change != nil {
		change(o)
	}
	return o
}

// A trial is a cache, its source, and a test in a bubble.
type trial struct {
	*singleflight.Cache[string, int64]
	*source
	t    *testing.T
	seen *recorder
}

func inBubble(t *testing.T, o *singleflight.CacheOptions[int64], test func(*trial)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		tr := &trial{source: &source{}, t: t, seen: &recorder{}}
		o.Observer = tr.seen
		tr.Cache = singleflight.NewCache(tr.load, o)
		test(tr)
		if err := tr.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// want fails unless the next Get has the value, and there were so many loads in all.
func (tr *trial) want(value int64, loads int64) {
	tr.t.Helper()
	tr.check(value, loads, func() {})
}

// wantBehind is want where a load begins in the background.
func (tr *trial) wantBehind(value int64, loads int64) {
	tr.t.Helper()
	tr.check(value, loads, synctest.Wait)
}

func (tr *trial) check(value int64, loads int64, wait func()) {
	tr.t.Helper()
	got, err := tr.Get(tr.t.Context(), "key")
	wait()
	if got != value || err != nil || tr.loads.Load() != loads {
		tr.t.Errorf("got %d, %v after %d loads; want %d after %d", got, err, tr.loads.Load(), value, loads)
	}
}
