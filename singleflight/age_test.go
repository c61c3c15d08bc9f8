package singleflight_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/singleflight"
)

// A suspended context stands still where its caller has looked into the cache, and has not asked for a call yet.
type suspended struct {
	context.Context

	once  sync.Once
	stand func()
}

func (s *suspended) Err() error {
	s.once.Do(s.stand)
	return s.Context.Err()
}

// A caller who comes late to what another has loaded meanwhile does not make it younger.
func TestALateCallerDoesNotProlongAValue(t *testing.T) {
	t.Parallel()
	inBubble(t, exact(nil), func(tr *trial) {
		late := &suspended{Context: tr.t.Context(), stand: func() {
			tr.want(0, 1)
			time.Sleep(time.Minute - loading - time.Nanosecond)
		}}
		if got, err := tr.Get(late, "key"); got != 0 || err != nil || tr.loads.Load() != 1 {
			tr.t.Errorf("the late caller got %d, %v after %d loads", got, err, tr.loads.Load())
		}
		tr.version.Store(1)
		tr.want(0, 1)
		time.Sleep(time.Nanosecond)
		tr.want(1, 2)
	})
}

// What takes longer to load than it may be old is for those who wait.
func TestALoadLongerThanTheTTLIsNotKept(t *testing.T) {
	t.Parallel()
	inBubble(t, exact(func(o *singleflight.CacheOptions[int64]) { o.TTL = loading }), func(tr *trial) {
		var all sync.WaitGroup
		for range many {
			all.Go(func() { tr.want(0, 1) })
		}
		all.Wait()
		tr.want(0, 2)
	})
}
