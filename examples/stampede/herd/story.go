package herd

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/examples/internal/story"
)

const (
	callers = 500
	rounds  = 5
	product = "product-7"
)

// A source is the database: it counts loads. The first load of a round is slow, as if it had met a busy replica.
type source struct {
	version atomic.Int64
	loads   atomic.Int64
	slow    atomic.Bool
	reading chan struct{} // gets something when the slow load has read
}

func (s *source) load(ctx context.Context, _ string) (int64, error) {
	s.loads.Add(1)
	version := s.version.Load()
	wait := 2 * time.Millisecond
	if s.slow.Swap(false) {
		wait = 30 * time.Millisecond
		s.reading <- struct{}{}
	}
	select {
	case <-time.After(wait):
		return version, nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// Run runs the story: two naive caches and ours, in the same rounds.
func Run(ctx context.Context, c story.Config) (story.Result, error) {
	r := story.Result{Story: "stampede", Hazard: "cache miss stampede, stale fill", Backend: "memory", NaiveDamage: -1}
	for _, act := range []struct {
		name  string
		naive bool
		open  func(Loader) Cache
	}{
		{"get, compute, set", true, func(load Loader) Cache { return NewNaive(load) }},
		{"x/sync", true, func(load Loader) Cache { return NewShared(load) }},
		{"singleflight.Cache", false, func(load Loader) Cache { return NewFenced(load) }},
	} {
		s := &source{reading: make(chan struct{}, 1)}
		t := tally{}
		cache := act.open(s.load)
		for range rounds {
			if err := t.round(ctx, s, cache); err != nil {
				return r, err
			}
		}
		c.Logf("%-18s %d rounds of %d callers: %.1f loads for each version, %d more than needed, %d stale answers, %d stale fills",
			act.name, rounds, 3*callers, float64(s.loads.Load())/rounds, t.extra, t.answers, t.fills)
		r.Operations += rounds * 3 * callers
		switch damage := t.extra + t.answers; {
		case !act.naive:
			r.Damage += damage
		case r.NaiveDamage < 0 || damage < r.NaiveDamage:
			r.NaiveDamage = damage
		}
	}
	r.Judge()
	return r, nil
}

// A tally is what went wrong.
type tally struct{ extra, answers, fills int }

// round is one expiry and one change.
func (t *tally) round(ctx context.Context, s *source, cache Cache) error {
	time.Sleep(ttl + time.Millisecond)
	begun, loads := time.Now(), s.loads.Load()
	s.slow.Store(true)
	first := ask(ctx, cache)
	<-s.reading
	committed := s.version.Add(1)
	cache.Invalidate(product)
	second := ask(ctx, cache)
	before, after := <-first, <-second
	quiet := <-ask(ctx, cache)

	needed := 2 + int(time.Since(begun)/ttl) // the change, and each time that the key expired
	t.extra += max(int(s.loads.Load()-loads)-needed, 0)
	stale := quiet.olderThan(committed)
	t.answers += after.olderThan(committed) + stale
	if stale > 0 {
		t.fills++
	}
	return errors.Join(before.err, after.err, quiet.err)
}

// answers are what callers got.
type answers struct {
	versions []int64
	err      error
}

func (a answers) olderThan(version int64) (n int) {
	for _, v := range a.versions {
		if v < version {
			n++
		}
	}
	return n
}

// ask lets all callers ask at once.
func ask(ctx context.Context, cache Cache) <-chan answers {
	got, errs := make([]int64, callers), make([]error, callers)
	done := make(chan answers, 1)
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() { got[i], errs[i] = cache.Get(ctx, product) })
	}
	go func() {
		all.Wait()
		done <- answers{got, errors.Join(errs...)}
	}()
	return done
}
