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

func newSource() *source { return &source{reading: make(chan struct{}, 1)} }

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
		s := newSource()
		cache := act.open(s.load)
		t, err := play(ctx, s, local{cache})
		if err != nil {
			return r, err
		}
		t.report(c, &r, act.name, act.naive)
	}
	r.Judge()
	return r, nil
}

// A fleet is who asks: this process, or several.
type fleet interface {
	// ask lets so many callers ask at once.
	ask(ctx context.Context, callers int) answers
	invalidate(ctx context.Context) error
}

// local is this process.
type local struct{ cache Cache }

func (l local) invalidate(context.Context) error {
	l.cache.Invalidate(product)
	return nil
}

func (l local) ask(ctx context.Context, callers int) answers {
	got, errs := make([]int64, callers), make([]error, callers)
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() { got[i], errs[i] = l.cache.Get(ctx, product) })
	}
	all.Wait()
	return answers{got, errors.Join(errs...)}
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

// A tally is what went wrong, and how much was loaded.
type tally struct {
	loads                 int64
	extra, answers, fills int
}

// play plays the rounds.
func play(ctx context.Context, s *source, f fleet) (t tally, err error) {
	for range rounds {
		if err := t.round(ctx, s, f); err != nil {
			return t, err
		}
	}
	t.loads = s.loads.Load()
	return t, nil
}

// round is one expiry and one change.
func (t *tally) round(ctx context.Context, s *source, f fleet) error {
	time.Sleep(ttl + time.Millisecond)
	begun, loads := time.Now(), s.loads.Load()
	s.slow.Store(true)
	first := make(chan answers, 1)
	go func() { first <- f.ask(ctx, callers) }()
	select {
	case <-s.reading:
	case got := <-first:
		return errors.Join(errors.New("the key had not expired"), got.err)
	}
	committed := s.version.Add(1)
	if err := f.invalidate(ctx); err != nil {
		return err
	}
	after := f.ask(ctx, callers)
	before := <-first
	quiet := f.ask(ctx, callers)

	needed := 2 + int(time.Since(begun)/ttl) // the change, and each time that the key expired
	t.extra += max(int(s.loads.Load()-loads)-needed, 0)
	stale := quiet.olderThan(committed)
	t.answers += after.olderThan(committed) + stale
	if stale > 0 {
		t.fills++
	}
	return errors.Join(before.err, after.err, quiet.err)
}

// report tells what was found, and adds it to the result.
func (t *tally) report(c story.Config, r *story.Result, name string, naive bool) {
	c.Logf("%-18s %d rounds of %d callers: %.1f loads for each version, %d more than needed, %d stale answers, %d stale fills",
		name, rounds, 3*callers, float64(t.loads)/rounds, t.extra, t.answers, t.fills)
	r.Operations += rounds * 3 * callers
	switch damage := t.extra + t.answers; {
	case !naive:
		r.Damage += damage
	case r.NaiveDamage < 0 || damage < r.NaiveDamage:
		r.NaiveDamage = damage
	}
}
