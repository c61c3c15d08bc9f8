package retry_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
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

func (proved) Error() string             { return "refused" }
func (proved) Outcome() holdfast.Outcome { return holdfast.NotApplied }
func (proved) Transient() bool           { return true }

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

// refusal states an outcome and no more, as most errors of this module do.
type refusal struct{ outcome holdfast.Outcome }

func (r refusal) Error() string             { return r.outcome.String() }
func (r refusal) Outcome() holdfast.Outcome { return r.outcome }

// sqlState is an error of a driver.
type sqlState string

func (s sqlState) Error() string    { return "state " + string(s) }
func (s sqlState) SQLState() string { return string(s) }

type notSent struct{ safe bool }

func (notSent) Error() string       { return "not sent" }
func (n notSent) SafeToRetry() bool { return n.safe }

func TestClassify(t *testing.T) {
	t.Parallel()
	dial := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	for _, c := range []struct {
		err  error
		want retry.Verdict
	}{
		{errBoom, retry.Verdict{}},
		{proved{}, retry.Verdict{Outcome: holdfast.NotApplied}},
		{fmt.Errorf("wrapped: %w", proved{}), retry.Verdict{Outcome: holdfast.NotApplied}},
		{refusal{holdfast.NotApplied}, retry.Verdict{Outcome: holdfast.NotApplied, Stop: retry.ErrPermanent}},
		{refusal{holdfast.Applied}, retry.Verdict{Outcome: holdfast.Applied, Stop: retry.ErrPermanent}},
		{refusal{holdfast.Unknown}, retry.Verdict{}},
		{dial, retry.Verdict{Outcome: holdfast.NotApplied}},
		{&net.DNSError{Err: "no such host", IsNotFound: true}, retry.Verdict{Outcome: holdfast.NotApplied}},
		{&net.OpError{Op: "read", Err: syscall.ECONNRESET}, retry.Verdict{}},
		{&net.OpError{Op: "write", Err: syscall.EPIPE}, retry.Verdict{}},
		{sqlState("40001"), retry.Verdict{Outcome: holdfast.NotApplied}},
		{sqlState("40P01"), retry.Verdict{Outcome: holdfast.NotApplied}},
		{sqlState("23505"), retry.Verdict{}},
		{notSent{true}, retry.Verdict{Outcome: holdfast.NotApplied}},
		{notSent{false}, retry.Verdict{}},
		{context.Canceled, retry.Verdict{Stop: retry.ErrPermanent}},
		{context.DeadlineExceeded, retry.Verdict{}},
		{retry.Permanent(errBoom), retry.Verdict{Stop: retry.ErrPermanent}},
		{retry.Permanent(dial), retry.Verdict{Outcome: holdfast.NotApplied, Stop: retry.ErrPermanent}},
		{backoff.Permanent(errBoom), retry.Verdict{Stop: retry.ErrPermanent}},
		{fmt.Errorf("wrapped: %w", retry.After(proved{}, time.Minute)), retry.Verdict{Outcome: holdfast.NotApplied, After: time.Minute}},
		{&holdfast.LockHeldError{}, retry.Verdict{Outcome: holdfast.NotApplied, Stop: retry.ErrPermanent}},
	} {
		if got := retry.Classify(c.err); got != c.want {
			t.Errorf("%v: got %+v, want %+v", c.err, got, c.want)
		}
	}
	if retry.Permanent(nil) != nil || retry.After(nil, time.Second) != nil {
		t.Error("nil is marked")
	}
	if err := retry.After(errBoom, time.Second); !errors.Is(err, errBoom) {
		t.Errorf("%v hides its error", err)
	}
}

func TestErrorTexts(t *testing.T) {
	t.Parallel()
	_, once := retry.Do(t.Context(), nil, retry.Once, func(context.Context, retry.Attempt) (int, error) { return 0, errBoom })
	_, refused := retry.Do(t.Context(), nil, retry.Keyed(""), func(context.Context, retry.Attempt) (int, error) { return 0, errBoom })
	zero := retry.New(&retry.Options{BackOff: func() backoff.BackOff { return &backoff.ZeroBackOff{} }})
	_, thrice := retry.Do(t.Context(), zero, retry.Read, func(context.Context, retry.Attempt) (int, error) { return 0, errBoom })
	for _, c := range []struct {
		err  error
		want string
	}{
		{once, "retry: not run again: say why it may be, by Read, Idempotent or Keyed, after 1 attempt, unknown: boom"},
		{refused, "retry: the key is empty: make one for each operation and keep it with it"},
		{thrice, "retry: no attempts left, after 3 attempts, not applied: boom"},
	} {
		if c.err.Error() != c.want {
			t.Errorf("got  %v\nwant %s", c.err, c.want)
		}
	}
}

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

func TestBackOffsOfUsers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var made atomic.Int32
		p := retry.New(&retry.Options{Attempts: 9, MaxDelay: 3 * time.Second, BackOff: func() backoff.BackOff {
			made.Add(1)
			return &schedule{delays: []time.Duration{time.Second, time.Hour, -7, backoff.Stop}}
		}})
		if _, err := retry.Do(t.Context(), p, retry.Read, func(context.Context, retry.Attempt) (int, error) { return 1, nil }); err != nil || made.Load() != 0 {
			t.Errorf("a schedule was made without a failure: %v", err)
		}
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				runs, begun := 0, time.Now()
				_, err := retry.Do(t.Context(), p, retry.Read, fails(&runs, make200(errBoom)...))
				if took := time.Since(begun); runs != 4 || took != 4*time.Second || !errors.Is(err, retry.ErrBackOff) || !errors.Is(err, errBoom) {
					t.Errorf("%d runs in %v: %v", runs, took, err)
				}
			})
		}
		all.Wait()
		if made.Load() != 8 {
			t.Errorf("%d schedules for 8 calls", made.Load())
		}
		runs := 0
		none := retry.New(&retry.Options{BackOff: func() backoff.BackOff { return nil }})
		if _, err := retry.Do(t.Context(), none, retry.Read, fails(&runs, errBoom)); err != nil || runs != 2 {
			t.Errorf("without a schedule: %v", err)
		}
	})
}

// schedule must be reset before use, as those of backoff are.
type schedule struct {
	delays []time.Duration
	next   int
	ready  bool
}

func (s *schedule) Reset() { s.next, s.ready = 0, true }

func (s *schedule) NextBackOff() time.Duration {
	if !s.ready {
		panic("not reset")
	}
	s.next++
	return s.delays[s.next-1]
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

func TestAllocations(t *testing.T) {
	fn := func(context.Context, retry.Attempt) (int, error) { return 1, nil }
	for _, c := range []struct {
		name string
		o    retry.Options
		want float64
	}{
		{"marked", retry.Options{}, 1},
		{"nested", retry.Options{Nested: true}, 0},
		{"breaker and budget", retry.Options{Nested: true, Breaker: retry.NewBreaker(nil), Budget: retry.NewBudget(1, 1)}, 0},
	} {
		p, ctx := retry.New(&c.o), t.Context()
		if got := testing.AllocsPerRun(200, func() { _, _ = retry.Do(ctx, p, retry.Keyed("k"), fn) }); got > c.want {
			t.Errorf("%s: %v allocations, want %v", c.name, got, c.want)
		}
	}
}

// A million calls leave nothing behind, and neither do many at once, some of which fail, panic or are cancelled.
func TestManyCalls(t *testing.T) {
	t.Parallel()
	total := 1_000_000
	if testing.Short() {
		total = 50_000
	}
	obs := holdfast.ObserverFunc(func(context.Context, holdfast.Event) {})
	p := retry.New(&retry.Options{
		BackOff: func() backoff.BackOff { return &backoff.ZeroBackOff{} }, Budget: retry.NewBudget(1, 1_000_000),
		Breaker: retry.NewBreaker(&retry.BreakerOptions{Failures: 1_000_000}), Observer: obs, Attempts: 2, Elapsed: time.Hour,
	})
	call := func(i int) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		defer func() { _ = recover() }()
		v, err := retry.Do(ctx, p, retry.Keyed("k"), func(_ context.Context, a retry.Attempt) (int, error) {
			switch {
			case i%97 == 0:
				panic("gone")
			case i%89 == 0:
				cancel()
				return 0, context.Canceled
			case i%5 == 0 && a.Number == 1:
				return 0, errBoom
			}
			return i, nil
		})
		if i%89 != 0 && (v != i || err != nil) {
			t.Errorf("call %d: got %d, %v", i, v, err)
		}
	}
	for i := range total {
		call(i + 1)
	}
	var all sync.WaitGroup
	for worker := range 64 {
		all.Go(func() {
			for i := range total / 64 {
				call(worker*total + i + 1)
			}
		})
	}
	all.Wait()
}
