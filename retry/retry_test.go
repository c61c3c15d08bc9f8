package retry_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cenkalti/backoff/v4"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/retry"
)

var errBoom = errors.New("boom")

// proved is an error that proves that there was no effect, and may pass.
type proved struct{}

func (proved) Error() string { return "refused" }

func (proved) Outcome() holdfast.Outcome { return holdfast.NotApplied }

func (proved) Transient() bool { return true }

// fails returns a function that fails with each of errs in turn, then succeeds, and counts its runs.
func fails(runs *int, errs ...error) func(context.Context, retry.Attempt) (string, error) {
	return func(context.Context, retry.Attempt) (string, error) {
		*runs++
		if *runs <= len(errs) {
			return "", errs[*runs-1]
		}
		return "done", nil
	}
}

func TestAnOperationIsRunAgainOnlyIfItSaysWhy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mark := errors.New("because")
		for _, c := range []struct {
			name    string
			op      retry.Operation
			err     error
			runs    int
			stop    error
			outcome holdfast.Outcome
		}{
			{"nothing said", retry.Operation{}, errBoom, 1, retry.ErrOnce, holdfast.Unknown},
			{"nothing said, but proved", retry.Once, proved{}, 1, retry.ErrOnce, holdfast.NotApplied},
			{"once, because", retry.Once.Because(mark), proved{}, 1, mark, holdfast.NotApplied},
			{"unsafe, unknown", retry.Unsafe, errBoom, 1, retry.ErrUnsafe, holdfast.Unknown},
			{"unsafe, because", retry.Unsafe.Because(mark), errBoom, 1, mark, holdfast.Unknown},
			{"unsafe, proved", retry.Unsafe, proved{}, 3, retry.ErrAttempts, holdfast.NotApplied},
			{"read", retry.Read, errBoom, 3, retry.ErrAttempts, holdfast.NotApplied},
			{"idempotent", retry.Idempotent, errBoom, 3, retry.ErrAttempts, holdfast.Unknown},
			{"idempotent, because", retry.Idempotent.Because(mark), errBoom, 3, retry.ErrAttempts, holdfast.Unknown},
			{"keyed", retry.Keyed("k"), errBoom, 3, retry.ErrAttempts, holdfast.Unknown},
			{"no key", retry.Keyed(""), errBoom, 0, retry.ErrNoKey, holdfast.NotApplied},
			{"no key, because", retry.Keyed("").Because(mark), errBoom, 0, retry.ErrNoKey, holdfast.NotApplied},
		} {
			runs := 0
			_, err := retry.Do(t.Context(), nil, c.op, fails(&runs, c.err, c.err, c.err, c.err, c.err))
			var e *retry.Error
			if !errors.As(err, &e) || !errors.Is(err, c.stop) || runs > 0 && !errors.Is(err, c.err) {
				t.Errorf("%s: got %v, want %v", c.name, err, c.stop)
				continue
			}
			if runs != c.runs || e.Attempts != c.runs || holdfast.OutcomeOf(err) != c.outcome {
				t.Errorf("%s: run %d times, want %d; %v, want %v: %v", c.name, runs, c.runs, holdfast.OutcomeOf(err), c.outcome, err)
			}
		}
	})
}

func TestKeyedHandsTheSameKeyToEveryAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var seen []retry.Attempt
		v, err := retry.Do(t.Context(), nil, retry.Keyed("order-7"), func(_ context.Context, a retry.Attempt) (int, error) {
			if seen = append(seen, a); len(seen) < 3 {
				return 0, errBoom
			}
			return 42, nil
		})
		if v != 42 || err != nil {
			t.Fatalf("got %v, %v", v, err)
		}
		for i, a := range seen {
			if a.Key != "order-7" || a.Number != i+1 {
				t.Errorf("attempt %d got %+v", i+1, a)
			}
		}
	})
}

// A refusal of the last attempt says nothing of an earlier one whose reply was lost.
func TestUnknownIsNeverReportedAsFailed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, errs := range [][]error{
			{errBoom, proved{}, proved{}}, {proved{}, errBoom, proved{}}, {errBoom, refusal{holdfast.NotApplied}},
		} {
			runs := 0
			_, err := retry.Do(t.Context(), nil, retry.Keyed("k"), fails(&runs, errs...))
			if holdfast.OutcomeOf(err) != holdfast.Unknown {
				t.Errorf("%v: got %v, %v", errs, holdfast.OutcomeOf(err), err)
			}
		}
		runs := 0
		_, err := retry.Do(t.Context(), nil, retry.Keyed("k"), fails(&runs, errBoom, refusal{holdfast.Applied}))
		if holdfast.OutcomeOf(err) != holdfast.Applied || runs != 2 {
			t.Errorf("got %v after %d runs, %v", holdfast.OutcomeOf(err), runs, err)
		}
	})
}

func TestNestedCallsDoNotMultiply(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		told := retry.New(&retry.Options{Nested: true})
		for _, c := range []struct {
			name         string
			outer, inner *retry.Policy
			op           retry.Operation
			runs         int
		}{
			{"inner tries once", nil, nil, retry.Idempotent, 3},
			{"unless told", nil, told, retry.Idempotent, 9},
			{"or the outer was told", told, nil, retry.Idempotent, 9},
			{"or the outer does not try again", nil, nil, retry.Once, 3},
		} {
			runs := 0
			_, err := retry.Do(t.Context(), c.outer, c.op, func(ctx context.Context, _ retry.Attempt) (int, error) {
				_, err := retry.Do(ctx, c.inner, retry.Idempotent, func(context.Context, retry.Attempt) (int, error) {
					runs++
					return 0, errBoom
				})
				if got := errors.Is(err, retry.ErrNested); got != (c.name == "inner tries once") {
					t.Errorf("%s: the inner error is %v", c.name, err)
				}
				return 0, errors.Join(err) // as a caller wraps it
			})
			if runs != c.runs || !errors.Is(err, errBoom) {
				t.Errorf("%s: %d runs, want %d: %v", c.name, runs, c.runs, err)
			}
		}
	})
}

func TestEveryAttemptIsObserved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		obs := holdfast.ObserverFunc(func(_ context.Context, e holdfast.Event) {
			if e.CorrelationID != "request-1" || e.Name != "bank" || len(e.Key) != 16 || strings.Contains(e.Key, "secret") {
				t.Errorf("got %+v", e)
			}
			lines = append(lines, fmt.Sprintf("%s %d %v %v", e.Kind, e.Attempt, e.Delay, e.Elapsed))
		})
		p := retry.New(&retry.Options{Name: "bank", Observer: obs, BackOff: func() backoff.BackOff { return backoff.NewConstantBackOff(time.Second) }})
		ctx := holdfast.WithCorrelationID(t.Context(), "request-1")
		for _, failures := range []int{1, 3} {
			_, _ = retry.Do(ctx, p, retry.Keyed("secret"), func(_ context.Context, a retry.Attempt) (int, error) {
				time.Sleep(time.Millisecond)
				if a.Number <= failures {
					return 0, errBoom
				}
				return 1, nil
			})
		}
		want := "retry.failed 1 1s 1ms,retry.recovered 2 0s 1ms," +
			"retry.failed 1 1s 1ms,retry.failed 2 1s 1ms,retry.failed 3 0s 1ms,retry.gave_up 3 0s 0s"
		if got := strings.Join(lines, ","); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}
