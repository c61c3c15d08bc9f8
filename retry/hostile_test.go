package retry_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/retry"
)

// What is below NoLimit counts as 0, which is the default, and not as no limit.
func TestR05AttemptsBelowNoLimitAreTheDefault(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		_, err := retry.Do(t.Context(), retry.New(&retry.Options{Attempts: -2}), retry.Read, fails(&runs, make200(errBoom)...))
		if runs != 3 || !errors.Is(err, retry.ErrAttempts) {
			t.Errorf("%d runs: %v", runs, err)
		}
	})
}

// stating is an error that states an outcome, and wraps another.
type stating struct{ error }

func (stating) Outcome() holdfast.Outcome { return holdfast.Unknown }
func (e stating) Unwrap() error           { return e.error }

// R13: what somebody cancelled is not tried again, whatever else the error says. A dial has sent nothing all the same.
func TestR13WhatWasCancelledIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	within, cancel := context.WithCancel(t.Context())
	cancel()
	_, dial := new(net.Dialer).DialContext(within, "tcp", "127.0.0.1:1")
	for _, c := range []struct {
		err     error
		outcome holdfast.Outcome
	}{
		{dial, holdfast.NotApplied},
		{&net.OpError{Op: "dial", Err: context.Canceled}, holdfast.NotApplied},
		{stating{context.Canceled}, holdfast.Unknown},
	} {
		runs := 0
		_, err := retry.Do(t.Context(), nil, retry.Idempotent, fails(&runs, c.err, c.err, c.err))
		if runs != 1 || !errors.Is(err, retry.ErrPermanent) || holdfast.OutcomeOf(err) != c.outcome {
			t.Errorf("%d runs of %v: %v", runs, c.err, err)
		}
	}
}

// R14: a classifier that panics on the error of a probe does not keep the place of the probe.
func TestR14APanicOfTheClassifierFreesTheProbe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := retry.NewBreaker(&retry.BreakerOptions{Failures: 1, OpenFor: time.Second, ProbeTimeout: time.Hour})
		hostile := false
		p := retry.New(&retry.Options{Attempts: 1, Breaker: b, Classify: func(err error) retry.Verdict {
			if hostile {
				panic("of no kind that is known")
			}
			return retry.Classify(err)
		}})
		runs := 0
		run := fails(&runs, errBoom, errBoom)
		_, _ = retry.Do(t.Context(), p, retry.Read, run)
		time.Sleep(time.Second)
		hostile = true
		func() {
			defer func() { _ = recover() }()
			_, _ = retry.Do(t.Context(), p, retry.Read, run)
		}()
		if runs != 2 || b.Open() {
			t.Errorf("after %d runs the breaker is open: %v", runs, b.Open())
		}
	})
}
