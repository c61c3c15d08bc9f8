package retry_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cenkalti/backoff/v4"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/retry"
)

func TestR05ZeroOptionsAreTheDocumentedDefaults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, p := range []*retry.Policy{nil, retry.New(nil), retry.New(&retry.Options{}), retry.New(&retry.Options{
			AttemptTimeout: -1, BaseDelay: -1, MaxDelay: -1, Elapsed: -1,
		})} {
			runs, begun := 0, time.Now()
			_, err := retry.Do(t.Context(), p, retry.Read, fails(&runs, errBoom, errBoom, errBoom, errBoom))
			if took := time.Since(begun); runs != 3 || !errors.Is(err, retry.ErrAttempts) || took <= 0 || took > 300*time.Millisecond {
				t.Errorf("%d runs in %v: %v", runs, took, err)
			}
		}
		runs := 0
		p := retry.New(&retry.Options{Attempts: retry.NoLimit, BaseDelay: 1})
		_, err := retry.Do(t.Context(), p, retry.Read, fails(&runs, make200(errBoom)...))
		if err != nil || runs != 201 {
			t.Errorf("no limit: %d runs, %v", runs, err)
		}
		runs = 0
		if _, err = retry.Do(t.Context(), retry.New(&retry.Options{Attempts: 1}), retry.Read, fails(&runs, errBoom)); runs != 1 || !errors.Is(err, retry.ErrAttempts) {
			t.Errorf("one attempt: %d runs, %v", runs, err)
		}
	})
}

func make200(err error) []error {
	errs := make([]error, 200)
	for i := range errs {
		errs[i] = err
	}
	return errs
}

// R7: the cause of the context's end and the last error are both there.
func TestR07TheLastErrorOutlivesTheContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("the user left")
		ctx, cancel := context.WithCancelCause(t.Context())
		p := retry.New(&retry.Options{BackOff: func() backoff.BackOff { return backoff.NewConstantBackOff(time.Second) }})
		time.AfterFunc(1500*time.Millisecond, func() { cancel(why) })
		runs, begun := 0, time.Now()
		_, err := retry.Do(ctx, p, retry.Idempotent, fails(&runs, errBoom, errBoom, errBoom))
		if !errors.Is(err, why) || !errors.Is(err, errBoom) || runs != 2 {
			t.Errorf("got %v after %d runs", err, runs)
		}
		if took := time.Since(begun); took != 1500*time.Millisecond {
			t.Errorf("slept on for %v", took)
		}
		runs = 0
		if _, err = retry.Do(ctx, nil, retry.Idempotent, fails(&runs)); runs != 0 || !errors.Is(err, why) || holdfast.OutcomeOf(err) != holdfast.NotApplied {
			t.Errorf("a context that had ended: %d runs, %v", runs, err)
		}
	})
}

func TestADelayThatPassesTheDeadlineIsNotSlept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		second := func() backoff.BackOff { return backoff.NewConstantBackOff(time.Second) }
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		for _, c := range []struct {
			ctx  context.Context
			o    retry.Options
			runs int
			stop error
		}{
			{ctx, retry.Options{Attempts: 9, BackOff: second}, 3, retry.ErrDeadline},
			{t.Context(), retry.Options{Attempts: 9, BackOff: second, Elapsed: 4 * time.Second}, 5, retry.ErrElapsed},
		} {
			runs, begun := 0, time.Now()
			_, err := retry.Do(c.ctx, retry.New(&c.o), retry.Idempotent, fails(&runs, make200(errBoom)...))
			if runs != c.runs || !errors.Is(err, c.stop) || !errors.Is(err, errBoom) || time.Since(begun) != time.Duration(c.runs-1)*time.Second {
				t.Errorf("%d runs in %v: %v", runs, time.Since(begun), err)
			}
		}
		if !errors.Is(retry.ErrDeadline, context.DeadlineExceeded) || !errors.Is(retry.ErrAttemptTimeout, context.DeadlineExceeded) {
			t.Error("a deadline is no context.DeadlineExceeded")
		}
	})
}

func TestAttemptTimeoutEndsTheAttemptAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := retry.New(&retry.Options{AttemptTimeout: time.Second})
		runs := 0
		v, err := retry.Do(t.Context(), p, retry.Idempotent, func(ctx context.Context, a retry.Attempt) (string, error) {
			if runs++; a.Number == 3 {
				return "done", nil
			}
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), retry.ErrAttemptTimeout) {
				t.Errorf("the cause is %v", context.Cause(ctx))
			}
			return "", ctx.Err()
		})
		if v != "done" || err != nil || runs != 3 {
			t.Errorf("got %q, %v after %d runs", v, err, runs)
		}
		_, err = retry.Do(t.Context(), p, retry.Unsafe, func(ctx context.Context, _ retry.Attempt) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		})
		if holdfast.OutcomeOf(err) != holdfast.Unknown || !errors.Is(err, retry.ErrUnsafe) {
			t.Errorf("an attempt that was cut off: %v", err)
		}
	})
}
