package lease

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
)

// Faults that leases of other libraries had, and the tests that keep them out here. Those of this package run on the time of
// the test, the rules are those of leasetest, and test/lease stops, kills and cuts off processes and servers.
//
//	B1   the server is gone, and the lease is believed in   leasetest: TestServerGone, rule "unreachable"
//	B2   one error of a renewal costs the lease             leasetest: TestOneRenewalIsCut, rule "one failed renewal"
//	B3   the context of the acquisition ends the renewals   leasetest: TestAnswerOfARenewalIsLate, rule "acquire bounds itself"
//	B4   a late renewal takes the lease again               rules "late renewal" and "taken"
//	B5   after an outage nothing is renewed any more        TestOutage, TestOutageIsLongerThanTheLease
//	B7   a lease is granted after its end                   TestLateGrant
//	B8   the connection decides, and not the deadline       TestDeadlineIsPunctual
//	B9   a network that drops packets goes unnoticed        leasetest: TestBlackHole; test/lease: TestCutOff
//	B11  the end comes as late as a request                 TestDeadlineIsPunctual, leasetest: TestBlackHole
//	B13  the clock stands still while the machine sleeps    TestSuspended, TestSuspendedIsNoticed, TestClocks; rule "renew expired"
//	B14  a process stops between check and write            test/lease: TestStopped
//	B15  the time is that of the transaction's begin        leasetest: TestTheStatementReadsTheClock
//	B17  the clocks of two contenders differ                TestClocksOfContendersDiffer
//	B18  a lease of a dead process is watched for its TTL   leasetest: TestRoundTrips; test/lease: TestKilled
//	B20  a release fails on a context that has ended        rule "released on cancelled context"
//	B21  nobody releases what a lost reply had granted      leasetest: TestReplyIsLost, rule "lost reply"
//	B22  a late release frees the lease of the next         rule "late release"
//	B25  a waiter that has gone blocks the others           TestAWaiterLeaves
//	B26  a loss is told as something else                   TestReleaseTells, rule "taken"
//	B27  tokens begin again when a record is deleted        rule "row deleted"
//	B29  tokens that do not rise                            rule "tokens rise"; test/lease: TestHistories
//	B30  a token is drawn before the lease is taken         leasetest: TestTokenIsDrawnLate
//	B32  a failover gives one token twice                   rule "token issued twice"; test/lease: TestPromotedStandby
//	B35  a lease is released while the work still runs      rules "elect waits" and "hold limit"

// A log collects events.
type log struct {
	mu     sync.Mutex
	events []holdfast.Event
}

func (l *log) Observe(_ context.Context, e holdfast.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
}

func (l *log) of(kind holdfast.EventKind) (found []holdfast.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.events {
		if e.Kind == kind {
			found = append(found, e)
		}
	}
	return found
}

// Each acquisition and each refusal is told, with how long the caller has waited and how often it has asked.
func TestEventsOfAcquisitions(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, _ *memory, leases *Leases[*Held], _ func(time.Duration)) {
		l := &log{}
		leases.core.o.Observer = l
		h, err := leases.TryAcquire(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(5*time.Second, func() { _, _ = h.Release(t.Context()) })
		next, err := leases.Acquire(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := next.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		acquired, refused := l.of(EventAcquired), l.of(EventRefused)
		if len(acquired) != 2 || len(refused) < 5 {
			t.Fatalf("%d acquisitions and %d refusals were told", len(acquired), len(refused))
		}
		if first := acquired[0]; first.Attempt != 1 || first.Elapsed != 0 || first.Key != "1" {
			t.Errorf("of the first: %+v", first)
		}
		if second := acquired[1]; second.Attempt != len(refused)+1 || second.Elapsed != 5*time.Second || second.Key != "2" {
			t.Errorf("of the second: %+v", second)
		}
		for i, e := range refused {
			if e.Attempt != i+1 || !errors.Is(e.Err, ErrHeld) || i > 0 && e.Elapsed <= refused[i-1].Elapsed {
				t.Errorf("refusal %d: %+v", i, e)
			}
		}
	})
}

// A context is under a lease until the handle is released: also that of the handle, and no longer than that.
func TestNestedUntilTheRelease(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, _ *memory, leases *Leases[*Held], _ func(time.Duration)) {
		h, err := leases.TryAcquire(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := leases.Acquire(h.Context(), "a"); !errors.Is(err, ErrNested) {
			t.Errorf("on the handle's context: %v", err)
		}
		under := context.WithoutCancel(h.Context())
		if _, err := h.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if h, err = leases.Acquire(under, "a"); err != nil {
			t.Fatalf("after the release: %v", err)
		}
		if _, err := h.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// B5: an outage that is longer than the lease ends it at its deadline, and the next lease is renewed as ever.
func TestOutageIsLongerThanTheLease(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, m *memory, leases *Leases[*Held], _ func(time.Duration)) {
		h, err := leases.TryAcquire(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		m.setHang(true)
		time.Sleep(11 * time.Second)
		if !errors.Is(context.Cause(h.Context()), ErrLost) {
			t.Errorf("after 11 s without a renewal: %v", context.Cause(h.Context()))
		}
		m.setHang(false)
		next, err := leases.TryAcquire(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := h.Release(t.Context()); got != AlreadyLost || err != nil {
			t.Errorf("the release of the lost one: %d, %v", got, err)
		}
		time.Sleep(time.Hour)
		if err := next.Check(); err != nil {
			t.Error(err)
		}
		if _, err := next.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// B25: who stops waiting is not waited for.
func TestAWaiterLeaves(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, _ *memory, leases *Leases[*Held], _ func(time.Duration)) {
		h, err := leases.TryAcquire(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		ctx, leave := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if _, err := leases.Acquire(ctx, "a"); !errors.Is(err, context.Canceled) {
					t.Errorf("a waiter that leaves got %v", err)
				}
			})
		}
		wg.Go(func() {
			next, err := leases.Acquire(t.Context(), "a")
			if err == nil {
				_, err = next.Release(t.Context())
			}
			if err != nil {
				t.Error(err)
			}
		})
		time.Sleep(time.Second)
		leave()
		if _, err := h.Release(t.Context()); err != nil {
			t.Error(err)
		}
		wg.Wait()
		if n := leases.core.line.Waiting("a"); n != 0 {
			t.Errorf("%d wait", n)
		}
	})
}

// A store whose releases fail.
type stuck struct{ *memory }

var errStuck = errors.New("the store is stuck")

func (stuck) Release(context.Context, Term) (bool, error) { return false, errStuck }

// B26: a release says whether the lease was held, lost, or nobody knows, and only the last comes with an error.
func TestReleaseTells(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, m *memory, leases *Leases[*Held], _ func(time.Duration)) {
		l := &log{}
		leases.core.o.Observer = l
		for _, c := range []struct {
			before func()
			want   Released
			err    error
			told   error
		}{
			{func() {}, ReleaseDone, nil, nil},
			{func() { clear(m.leases) }, AlreadyLost, nil, ErrLost},
			{func() { leases.core.store = stuck{m} }, ReleaseUnknown, errStuck, errStuck},
		} {
			h, err := leases.TryAcquire(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			c.before()
			if got, err := h.Release(t.Context()); got != c.want || !errors.Is(err, c.err) {
				t.Errorf("got %d, %v, want %d, %v", got, err, c.want, c.err)
			}
			released := l.of(EventReleased)
			if last := released[len(released)-1]; !errors.Is(last.Err, c.told) {
				t.Errorf("the event says %v, want %v", last.Err, c.told)
			}
		}
	})
}

// What cannot be told is not made up: a lease that was taken at the same moment waits for no transaction.
func TestHeldErrors(t *testing.T) {
	t.Parallel()
	var texts []string
	for _, e := range []*HeldError{
		{Name: "a"}, {Name: "a", Token: 1}, {Name: "a", Token: 1, Remaining: time.Second}, {Name: "a", Token: 1, Remaining: time.Second, Holder: "b"},
	} {
		texts = append(texts, e.Error())
	}
	if !slices.Equal(texts, []string{
		`lease: "a" is being taken by somebody else at this moment`,
		`lease: "a" is being taken by somebody else, or a transaction that it guards is still open`,
		`lease: "a" is held for 1s more`,
		`lease: "a" is held by "b" for 1s more`,
	}) {
		t.Errorf("%q", texts)
	}
}

// The error of a renewal says that nothing was applied, of the renewal. The work may have been.
func TestALossSaysNothingOfTheWork(t *testing.T) {
	t.Parallel()
	refused := &InputError{Name: "a renewal", Reason: "was refused"} // says NotApplied
	lost := &LostError{Name: "a", Reason: Unreachable, Err: refused}
	if got := holdfast.OutcomeOf(lost); got != holdfast.Unknown {
		t.Errorf("a loss says %v", got)
	}
	for _, c := range []struct {
		err  error
		want holdfast.Outcome
	}{{nil, holdfast.Unknown}, {errStuck, holdfast.Unknown}, {refused, holdfast.NotApplied}} {
		inTime(t, func(t *testing.T, m *memory, leases *Leases[*Held], _ func(time.Duration)) {
			err := leases.Run(t.Context(), "a", func(ctx context.Context, h *Held) error {
				_ = h.lose(Unreachable, refused)
				return c.err
			})
			if got := holdfast.OutcomeOf(err); got != c.want || !errors.Is(err, ErrLost) || !errors.Is(err, c.err) && c.err != nil {
				t.Errorf("after %v: %v, which says %v", c.err, err, got)
			}
		})
	}
}
