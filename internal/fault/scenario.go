package fault

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/jitter"
)

// A TB is what is used of a *testing.T.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
	Logf(format string, args ...any)
}

// A Call does one operation, named by its key, and returns its answer.
type Call func(ctx context.Context, key string) (answer any, err error)

// A Process makes calls and counts the effects of a key.
type Process struct {
	Call    Call
	Effects func(ctx context.Context, key string) (int, error)
}

// A Scenario is an operation that is to have one effect whatever goes wrong.
type Scenario struct {
	// Start starts a process in which every operation passes in. It registers with [Injector.OnStop] what ends it.
	Start func(ctx context.Context, in *Injector) (Process, error)
	// Same reports whether two answers are equal.
	Same func(a, b any) bool
}

// Limits of a run.
const (
	callTimeout  = 30 * time.Second // for a call to return
	retryTimeout = 20 * time.Second // for its retries to succeed
)

var keys atomic.Int64

// run is the use of a scenario by one test.
type run struct {
	Scenario
	t     TB
	ctx   context.Context //nolint:containedctx // it is that of the test
	clean Process         // without faults
	sound *Injector
	stamp string
	bad   int
}

// most is how many failures are reported before a test gives up.
const most = 5

// begin starts a run. It returns nil if the test has failed.
func begin(t TB, s Scenario) *run {
	t.Helper()
	r := &run{Scenario: s, t: t, ctx: context.Background(), sound: NewInjector(nil), stamp: fmt.Sprintf("%x", time.Now().UnixNano())}
	var err error
	if r.clean, err = s.Start(r.ctx, r.sound); err != nil {
		t.Errorf("prove: start: %v", err)
		r.sound.Stop()
		return nil
	}
	return r
}

func (r *run) end() { r.sound.Stop() }

// key returns a key that nobody has used.
func (r *run) key() string { return fmt.Sprintf("prove-%s-%d", r.stamp, keys.Add(1)) }

// fails reports a failure, and whether it is time to give up.
func (r *run) fails(where string, err error) bool {
	r.t.Helper()
	if err != nil {
		r.bad++
		r.t.Errorf("prove: %s%v", where, err)
	}
	return r.bad >= most
}

// A reply is how a call came back.
type reply struct {
	answer   any
	err      error
	returned bool // neither a panic nor an exit of the goroutine
	panicked any
}

func (got reply) ok() bool { return got.returned && got.err == nil }

var errHung = fmt.Errorf("the call did not return within %v", callTimeout)

// invoke makes a call on a goroutine of its own, which a fault may end.
func invoke(ctx context.Context, call Call, key string) reply {
	done := make(chan reply, 1)
	go func() {
		var got reply
		defer func() {
			if !got.returned {
				got.panicked = recover()
			}
			done <- got
		}()
		got.answer, got.err = call(ctx, key)
		got.returned = true
	}()
	timer := time.NewTimer(callTimeout)
	defer timer.Stop()
	select {
	case got := <-done:
		return got
	case <-timer.C:
		return reply{err: errHung}
	}
}

// strange returns an error if the call came back as no call should.
func (got reply) strange() error {
	var injected Injected
	if err, ok := got.panicked.(error); ok && errors.As(err, &injected) {
		return nil
	}
	if got.panicked != nil {
		return fmt.Errorf("the call panicked: %v", got.panicked)
	}
	if errors.Is(got.err, errHung) {
		return errHung
	}
	return nil
}

// succeed calls until the answer comes, as a caller who retries does.
func (r *run) succeed(key string) (answer any, err error) {
	for deadline, try := time.Now().Add(retryTimeout), 1; ; try++ {
		got := invoke(r.ctx, r.clean.Call, key)
		switch {
		case got.strange() != nil:
			return nil, got.strange()
		case got.ok():
			return got.answer, nil
		case !got.returned:
			return nil, errors.New("the goroutine of the call exited")
		case time.Now().After(deadline):
			return nil, fmt.Errorf("no success in %d calls: %w", try, got.err)
		}
		time.Sleep(jitter.Full(time.Millisecond, 100*time.Millisecond, try))
	}
}

// count checks the number of effects.
func (r *run) count(key, when string, least, most int) error {
	n, err := r.clean.Effects(r.ctx, key)
	switch {
	case err != nil:
		return fmt.Errorf("%s: count the effects: %w", when, err)
	case n >= least && n <= most:
		return nil
	}
	return &effectsError{when: when, n: n, least: least, most: most}
}

// An effectsError is a number of effects that is not right.
type effectsError struct {
	when           string
	n, least, most int
	why            string
}

func (e *effectsError) Error() string {
	want := fmt.Sprint(e.least)
	if e.most != e.least {
		want += fmt.Sprintf(" or %d", e.most)
	}
	return fmt.Sprintf("%s: %d effects, want %s%s", e.when, e.n, want, e.why)
}

// because adds why to err if it is a number of effects for which that holds.
func because(err error, why string, holds func(n int) bool) error {
	var e *effectsError
	if errors.As(err, &e) && holds(e.n) {
		e.why = ": " + why
	}
	return err
}

// settle retries what has been called before until it succeeds, once more after that, and checks that it was done once.
// answers are those that callers got so far.
func (r *run) settle(key string, answers ...any) error {
	for _, when := range []string{"a retry", "a repetition"} {
		answer, err := r.succeed(key)
		if err != nil {
			return fmt.Errorf("%s: %w", when, err)
		}
		if err := r.count(key, "after "+when, 1, 1); err != nil {
			answered := len(answers) + 1
			return because(err, "each call had one of its own, so the handler ignores its key", func(n int) bool { return n > 1 && n == answered })
		}
		for _, before := range answers {
			if !r.Same(before, answer) {
				return fmt.Errorf("%s is answered with %+v, and the call before with %+v", when, answer, before)
			}
		}
		answers = append(answers, answer)
	}
	return nil
}
