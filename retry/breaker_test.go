package retry_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cenkalti/backoff/v4"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/retry"
)

// harness makes single calls under one breaker.
type harness struct {
	b      *retry.Breaker
	p      *retry.Policy
	events []holdfast.EventKind
}

func newHarness() *harness {
	h := &harness{b: retry.NewBreaker(&retry.BreakerOptions{Failures: 3, OpenFor: time.Second, ProbeTimeout: 2 * time.Second})}
	obs := holdfast.ObserverFunc(func(_ context.Context, e holdfast.Event) {
		if e.Kind == retry.EventOpened || e.Kind == retry.EventClosed {
			h.events = append(h.events, e.Kind)
		}
	})
	h.p = retry.New(&retry.Options{Attempts: 1, Breaker: h.b, Observer: obs})
	return h
}

func (h *harness) call(ctx context.Context, err error) error {
	return retry.Run(ctx, h.p, retry.Read, func(context.Context, retry.Attempt) error { return err })
}

func (h *harness) fail(t *testing.T, times int) {
	t.Helper()
	for range times {
		if err := h.call(t.Context(), errBoom); !errors.Is(err, errBoom) {
			t.Errorf("got %v", err)
		}
	}
}

func TestABreakerOpensAndCloses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness()
		h.fail(t, 2)
		if err := h.call(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		h.fail(t, 2)
		if h.b.Open() {
			t.Fatal("open after failures that were not in a row")
		}
		h.fail(t, 1)
		err := h.call(t.Context(), nil)
		if !h.b.Open() || !errors.Is(err, retry.ErrOpen) || holdfast.OutcomeOf(err) != holdfast.NotApplied {
			t.Fatalf("not open: %v", err)
		}
		time.Sleep(time.Second)
		h.fail(t, 1) // the probe
		if !h.b.Open() {
			t.Fatal("a probe that failed closes it")
		}
		time.Sleep(time.Second)
		if err := h.call(t.Context(), refusal{holdfast.NotApplied}); errors.Is(err, retry.ErrOpen) {
			t.Fatal("no probe")
		}
		if h.b.Open() || len(h.events) != 2 || h.events[0] != retry.EventOpened || h.events[1] != retry.EventClosed {
			t.Errorf("a target that refuses is up: %v", h.events)
		}
	})
}

// R13: an open breaker ends a call at once, unless its probe is due in time.
func TestR13AnOpenBreakerIsNotRetried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			delay time.Duration
			runs  int
			stop  error
		}{{100 * time.Millisecond, 1, retry.ErrOpen}, {2 * time.Second, 5, retry.ErrAttempts}} {
			p := retry.New(&retry.Options{
				Attempts: 5, Breaker: retry.NewBreaker(&retry.BreakerOptions{Failures: 1, OpenFor: time.Second}),
				BackOff: func() backoff.BackOff { return backoff.NewConstantBackOff(c.delay) },
			})
			runs, begun := 0, time.Now()
			_, err := retry.Do(t.Context(), p, retry.Idempotent, fails(&runs, make200(errBoom)...))
			if runs != c.runs || !errors.Is(err, c.stop) || !errors.Is(err, errBoom) || time.Since(begun) != time.Duration(c.runs-1)*c.delay {
				t.Errorf("delay %v: %d runs in %v: %v", c.delay, runs, time.Since(begun), err)
			}
		}
		// The refusal of an inner call by the breaker is not retried by the outer one, and neither is a cancellation.
		for _, err := range []error{context.Canceled, openError(t)} {
			runs := 0
			if _, err := retry.Do(t.Context(), nil, retry.Idempotent, fails(&runs, err, err)); err == nil || runs != 1 {
				t.Errorf("%d runs: %v", runs, err)
			}
		}
	})
}

func openError(t *testing.T) error {
	h := newHarness()
	h.fail(t, 3)
	return h.call(t.Context(), nil)
}

// R14: what the caller does says nothing of the target.
func TestR14CancellationsAreNeutral(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness()
		canceled := func() {
			ctx, cancel := context.WithCancel(t.Context())
			_ = retry.Run(ctx, h.p, retry.Read, func(context.Context, retry.Attempt) error { cancel(); return ctx.Err() })
		}
		h.fail(t, 2)
		for range 10 {
			canceled()
		}
		if h.b.Open() {
			t.Error("cancellations opened it")
		}
		h.fail(t, 1)
		if !h.b.Open() {
			t.Error("cancellations count as successes")
		}
		// The place of a probe is free again at once, however its caller leaves.
		for name, leave := range map[string]func(){
			"cancel": canceled,
			"panic": func() {
				defer func() { _ = recover() }()
				_ = retry.Run(t.Context(), h.p, retry.Read, func(context.Context, retry.Attempt) error { panic("gone") })
			},
			"goexit": func() {
				var gone sync.WaitGroup
				gone.Go(func() {
					_ = retry.Run(t.Context(), h.p, retry.Read, func(context.Context, retry.Attempt) error { runtime.Goexit(); return nil })
				})
				gone.Wait()
			},
		} {
			time.Sleep(time.Second)
			leave()
			if h.b.Open() {
				t.Errorf("%s keeps the place of the probe", name)
			}
			h.fail(t, 1)
			if !h.b.Open() {
				t.Errorf("%s: the next probe is none", name)
			}
		}
	})
}

func TestR14AHungProbeKeepsNobodyOutForEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness()
		h.fail(t, 3)
		time.Sleep(time.Second)
		release, late := make(chan error), make(chan error)
		for range 2 {
			go func() {
				late <- retry.Run(t.Context(), h.p, retry.Read, func(context.Context, retry.Attempt) error { return <-release })
			}()
			synctest.Wait()
			if err := h.call(t.Context(), nil); !errors.Is(err, retry.ErrOpen) {
				t.Errorf("two probes at once: %v", err)
			}
			time.Sleep(2 * time.Second)
		}
		release <- errBoom // one of the hung ones; whichever it is, it does not end the wait of others
		<-late
		if err := h.call(t.Context(), nil); err != nil && !errors.Is(err, retry.ErrOpen) {
			t.Error(err)
		}
		time.Sleep(2 * time.Second)
		if err := h.call(t.Context(), nil); err != nil {
			t.Errorf("a hung probe keeps everybody out: %v", err)
		}
		release <- errBoom
		<-late
		if h.b.Open() {
			t.Error("the failure of an old probe opened it")
		}
	})
}

// A refusal that never reached the target does not show that it is up: a lock that is held, another breaker, a call without a key.
func TestABreakerLearnsNothingFromRefusalsOfThisProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for name, refused := range map[string]error{
			"lock":    &holdfast.LockHeldError{Locks: []string{"account"}},
			"breaker": openError(t),
			"no key":  retry.Run(t.Context(), nil, retry.Keyed(""), nil),
			"context": retry.Run(ended, nil, retry.Read, nil),
			"wrapped": errors.Join(errBoom, openError(t)),
		} {
			h := newHarness()
			h.fail(t, 2)
			_ = h.call(t.Context(), refused)
			h.fail(t, 1)
			if !h.b.Open() {
				t.Errorf("%s counts as a success", name)
			}
			time.Sleep(time.Second)
			_ = h.call(t.Context(), refused) // the probe
			h.fail(t, 1)
			if !h.b.Open() {
				t.Errorf("%s closes it", name)
			}
		}
	})
}
