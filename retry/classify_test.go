package retry_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v4"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/retry"
)

// refusal states an outcome and no more, as most errors of this module do.
type refusal struct{ outcome holdfast.Outcome }

func (r refusal) Error() string { return r.outcome.String() }

func (r refusal) Outcome() holdfast.Outcome { return r.outcome }

// sqlState is an error of a driver.
type sqlState string

func (s sqlState) Error() string { return "state " + string(s) }

func (s sqlState) SQLState() string { return string(s) }

type notSent struct{ safe bool }

func (notSent) Error() string { return "not sent" }

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

// What was joined is as unknown as its most unknown part: that one host was not reached says nothing of another that was.
func TestTwoErrorsSideBySideProveLess(t *testing.T) {
	t.Parallel()
	dial, read := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, &net.OpError{Op: "read", Err: syscall.ECONNRESET}
	no, maybe, yes := refusal{holdfast.NotApplied}, refusal{holdfast.Unknown}, refusal{holdfast.Applied}
	for _, c := range []struct {
		err  error
		want holdfast.Outcome
	}{
		{errors.Join(dial, read), holdfast.Unknown},
		{errors.Join(read, dial), holdfast.Unknown},
		{errors.Join(dial, fmt.Errorf("and: %w", errors.Join(dial, read))), holdfast.Unknown},
		{errors.Join(dial, dial), holdfast.NotApplied},
		{errors.Join(errBoom, dial), holdfast.NotApplied}, // a sentinel, and its cause
		{&net.OpError{Op: "dial", Err: read}, holdfast.NotApplied},
		{&net.OpError{Op: "read", Err: dial}, holdfast.Unknown},
		{errors.Join(no, maybe), holdfast.Unknown},
		{errors.Join(maybe, no), holdfast.Unknown},
		{errors.Join(no, yes), holdfast.Unknown},
		{errors.Join(no, no), holdfast.NotApplied},
		{errors.Join(read, no), holdfast.NotApplied}, // it states what it knows
		{fmt.Errorf("%w: %w", no, dial), holdfast.NotApplied},
	} {
		if got := retry.Classify(c.err).Outcome; got != c.want {
			t.Errorf("%q is %v, want %v", c.err, got, c.want)
		}
		runs := 0
		_, err := retry.Do(t.Context(), retry.New(&retry.Options{BaseDelay: 1, MaxDelay: 1}), retry.Unsafe, fails(&runs, c.err))
		if c.want == holdfast.Unknown && (runs != 1 || holdfast.OutcomeOf(err) != holdfast.Unknown) {
			t.Errorf("%q: %d runs, %v", c.err, runs, err)
		}
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
