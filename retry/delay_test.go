package retry_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cenkalti/backoff/v4"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/retry"
)

// delays returns those that a policy waits, on the fake clock.
func delays(t *testing.T, o retry.Options, err error) (waited []time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		last := time.Now()
		_ = retry.Run(t.Context(), retry.New(&o), retry.Idempotent, func(_ context.Context, a retry.Attempt) error {
			if a.Number > 1 {
				waited = append(waited, time.Since(last))
			}
			last = time.Now()
			return err
		})
	})
	return waited
}

// R3 and R16: no attempt number and no bounds make a delay leave [0, MaxDelay].
func TestR03R16DelaysStayWithinTheCap(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ base, most time.Duration }{
		{1, 1}, {1, time.Second}, {time.Nanosecond, time.Hour}, {time.Hour, time.Second}, {time.Second, time.Minute}, {1, 3},
	} {
		got := delays(t, retry.Options{Attempts: 2000, BaseDelay: c.base, MaxDelay: c.most}, errBoom)
		if len(got) != 1999 {
			t.Fatalf("%d delays", len(got))
		}
		bound, longest, shortest := min(c.base, c.most), time.Duration(0), c.most
		for i, d := range got {
			if d <= 0 || d > bound {
				t.Fatalf("base %v, most %v: delay %d is %v, above %v", c.base, c.most, i+1, d, bound)
			}
			bound = min(2*bound, c.most)
			if longest = max(longest, d); i > 100 {
				shortest = min(shortest, d)
			}
		}
		if longest <= c.most/2 || shortest > max(c.most/2, 1) {
			t.Errorf("base %v, most %v: %d delays are between %v and %v, which is no full jitter", c.base, c.most, len(got), shortest, longest)
		}
	}
}

// R2: a hint is a lower bound as far as the cap allows, and is not slept past a deadline.
func TestR02HintsAreClamped(t *testing.T) {
	t.Parallel()
	for _, hint := range []time.Duration{math.MinInt64, -1, 0, time.Second, 2900 * time.Millisecond, 3 * time.Second, time.Hour, math.MaxInt64} {
		o := retry.Options{Attempts: 40, BaseDelay: 200 * time.Millisecond, MaxDelay: 3 * time.Second}
		for _, d := range delays(t, o, retry.After(errBoom, hint)) {
			if d > o.MaxDelay || d < min(max(hint, 0), o.MaxDelay) {
				t.Errorf("hint %v: waited %v", hint, d)
			}
		}
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		err := retry.Run(ctx, nil, retry.Read, func(context.Context, retry.Attempt) error { return retry.After(errBoom, time.Minute) })
		var e *retry.Error
		if !errors.As(err, &e) || e.After != time.Minute || !errors.Is(err, retry.ErrDeadline) || time.Since(begun) != 0 {
			t.Errorf("after %v: %+v", time.Since(begun), e)
		}
	})
}

// Three failures without a delay take no timer: on the fake clock a timer would need everybody to sleep.
func TestWithoutADelayThereIsNoTimer(t *testing.T) {
	p := retry.New(&retry.Options{Attempts: 4, Nested: true, BackOff: func() backoff.BackOff { return &backoff.ZeroBackOff{} }})
	fn := func(_ context.Context, a retry.Attempt) (int, error) {
		if a.Number < 4 {
			return 0, proved{}
		}
		return 1, nil
	}
	// The schedule is one allocation; a timer is three more.
	if got := testing.AllocsPerRun(100, func() { _, _ = retry.Do(t.Context(), p, retry.Read, fn) }); got > 1 {
		t.Errorf("%v allocations", got)
	}
}

func FuzzDelays(f *testing.F) {
	f.Add(int64(1), int64(math.MaxInt64), int64(0), uint(40))
	f.Add(int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), uint(3))
	f.Add(int64(-1), int64(-1), int64(-1), uint(100))
	f.Fuzz(func(t *testing.T, base, most, hint int64, attempts uint) {
		o := retry.Options{Attempts: int(attempts%100) + 1, BaseDelay: time.Duration(base), MaxDelay: time.Duration(most)}
		limit := o.MaxDelay
		if limit <= 0 {
			limit = 5 * time.Second
		}
		// Nothing is slept: the observer is told of each delay, and the context ends with it.
		var told []time.Duration
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		o.Observer = holdfast.ObserverFunc(func(_ context.Context, e holdfast.Event) {
			if e.Kind == retry.EventFailed && e.Delay != 0 {
				told = append(told, e.Delay)
				cancel()
			}
		})
		err := retry.Run(ctx, retry.New(&o), retry.Read, func(context.Context, retry.Attempt) error {
			return retry.After(errBoom, time.Duration(hint))
		})
		if err == nil || o.Attempts > 1 && len(told) != 1 {
			t.Fatalf("%v, delays %v", err, told)
		}
		for _, d := range told {
			if d < 0 || d > limit || d < min(max(time.Duration(hint), 0), limit) {
				t.Fatalf("delay %v, hint %v, limit %v", d, hint, limit)
			}
		}
	})
}
