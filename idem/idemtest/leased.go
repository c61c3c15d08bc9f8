package idemtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/idem"
)

// A leasedRule is one promise of work that leaves the database.
type leasedRule struct {
	name string
	text string // the promise, in one sentence
	test func(s *leasedSuite)
}

// RunStore checks every promise that [idem.Leased] makes on any store, each on an empty one that open makes for it, in parallel.
func RunStore(t *testing.T, open func(t testing.TB) idem.Store) {
	t.Helper()
	rules := slices.Concat(leasedRules(), stepRules(), heldRules(), leftRules(), waitRules(), webStoreRules())
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			t.Cleanup(cancel)
			r.test(&leasedSuite{T: t, ctx: ctx, store: open(t), done: map[string]int{}})
			if t.Failed() {
				t.Logf("the rule: %s", r.text)
			}
		})
	}
}

// leasedSuite is what a rule works with: a store, and a service outside that counts what it does.
type leasedSuite struct {
	*testing.T
	ctx   context.Context //nolint:containedctx // it is that of the test
	store idem.Store

	mu   sync.Mutex // guards done
	done map[string]int
}

// process returns keys that share nothing but the store with those of others.
func (s *leasedSuite) process(o idem.LeaseOptions) *idem.Leased[*idem.Run] {
	return idem.NewLeasedOn(s.store, &o)
}

// short is a lease that the rule waits for the end of.
const short = 500 * time.Millisecond

// deaf is a process that renews nothing: a paused one.
func (s *leasedSuite) deaf() *idem.Leased[*idem.Run] {
	return idem.NewLeasedOn(unrenewing{s.store}, &idem.LeaseOptions{Lease: short})
}

type unrenewing struct{ idem.Store }

var errPaused = errors.New("paused")

func (unrenewing) Renew(context.Context, []idem.Term, time.Duration) ([]idem.Renewal, error) {
	return nil, errPaused
}

// charge has its effect outside, once more for each time that it is called.
func (s *leasedSuite) charge(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done[name]++
}

func (s *leasedSuite) wantCharges(name string, want int) {
	s.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done[name] != want {
		s.Fatalf("%d effects of %q, want %d", s.done[name], name, want)
	}
}

func (s *leasedSuite) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *leasedSuite) want(err, target error) {
	s.Helper()
	if !errors.Is(err, target) {
		s.Fatalf("got error %v, want %v", err, target)
	}
}

// paying is a closure that charges and answers.
func paying[H idem.Runner](s *leasedSuite, name, answer string) func(context.Context, H) (string, error) {
	return func(context.Context, H) (string, error) {
		s.charge(name)
		return answer, nil
	}
}

func leasedRules() []leasedRule {
	return []leasedRule{
		{"Once", "work that leaves the database is done once, and its answer is replayed byte for byte", leasedOnce},
		{"Refused", "a duplicate of another process is refused while the first is running, with how long its lease has left", leasedRefused},
		{"Mismatch", "another request under the key is a mismatch at once, running or done, and does not wait", leasedMismatch},
		{"TakenOver", "a key whose lease ran out is taken over under a higher epoch, and the zombie neither answers nor frees it", leasedTakenOver},
		{"Epochs", "epochs of a key rise over release and takeover", leasedEpochs},
	}
}

func leasedOnce(s *leasedSuite) {
	var bodies []string
	for i := range 3 {
		res, err := idem.DoLeased(s.ctx, s.process(idem.LeaseOptions{}), key("once"), paying[*idem.Run](s, "once", "paid"))
		if err != nil || res.Replayed != (i > 0) || res.Value != "paid" {
			s.Fatalf("call %d: got %+v, %v", i+1, res, err)
		}
		bodies = append(bodies, string(res.Body))
	}
	if bodies[0] != `"paid"` || bodies[1] != bodies[0] || bodies[2] != bodies[0] {
		s.Fatalf("bodies %q", bodies)
	}
	s.wantCharges("once", 1)
}

func leasedRefused(s *leasedSuite) {
	_, err := idem.DoLeased(s.ctx, s.process(idem.LeaseOptions{}), key("busy"), func(ctx context.Context, _ *idem.Run) (string, error) {
		_, err := idem.DoLeased(s.ctx, s.process(idem.LeaseOptions{}), key("busy"), paying[*idem.Run](s, "busy", "second"))
		var busy *idem.InFlightError
		if !errors.As(err, &busy) || busy.RetryAfter <= 0 || busy.RetryAfter > 16*time.Second {
			s.Errorf("got %v", err)
		}
		return "first", nil
	})
	s.must(err)
	s.wantCharges("busy", 0)
}

func leasedMismatch(s *leasedSuite) {
	mine, other := key("compared"), key("compared")
	mine.Fingerprint, other.Fingerprint = idem.FingerprintOf("100"), idem.FingerprintOf("200")
	patient := s.process(idem.LeaseOptions{Wait: time.Minute})
	compare := func(when string) {
		started := time.Now()
		_, err := idem.DoLeased(s.ctx, patient, other, paying[*idem.Run](s, "compared", "other"))
		if !errors.Is(err, idem.ErrMismatch) || holdfast.OutcomeOf(err) != holdfast.NotApplied || time.Since(started) > 30*time.Second {
			s.Errorf("%s: got %v after %v", when, err, time.Since(started))
		}
	}
	_, err := idem.DoLeased(s.ctx, s.process(idem.LeaseOptions{}), mine, func(context.Context, *idem.Run) (string, error) {
		compare("running")
		return "mine", nil
	})
	s.must(err)
	compare("done")
	s.wantCharges("compared", 0)
}

// B1, B2: the lease of a paused process runs out, another takes over and answers, and the first comes back.
func leasedTakenOver(s *leasedSuite) {
	for _, end := range []error{nil, errPlain} {
		name := fmt.Sprint("taken over, ", end)
		var first, second int64
		_, err := idem.DoLeased(s.ctx, s.deaf(), key(name), func(_ context.Context, run *idem.Run) (string, error) {
			first = run.Epoch()
			res, err := idem.DoLeased(s.ctx, s.process(idem.LeaseOptions{Wait: time.Minute}), key(name), func(_ context.Context, run *idem.Run) (string, error) {
				second = run.Epoch()
				s.charge(name)
				if run.Attempt() != 2 {
					s.Errorf("attempt %d", run.Attempt())
				}
				return "b", nil
			})
			if err != nil || res.Value != "b" {
				s.Errorf("the second got %+v, %v", res, err)
			}
			return "a", end
		})
		if s.want(err, idem.ErrLeaseLost); holdfast.OutcomeOf(err) != holdfast.Unknown {
			s.Fatalf("outcome %v", holdfast.OutcomeOf(err))
		}
		if first >= second || first == 0 {
			s.Fatalf("epoch %d, then %d", first, second)
		}
		res, err := idem.DoLeased(s.ctx, s.process(idem.LeaseOptions{}), key(name), paying[*idem.Run](s, name, "c"))
		if err != nil || !res.Replayed || res.Value != "b" {
			s.Fatalf("got %+v, %v", res, err)
		}
		s.wantCharges(name, 1)
	}
}

func leasedEpochs(s *leasedSuite) {
	var last int64
	for range 20 {
		_, err := idem.DoLeased(s.ctx, s.process(idem.LeaseOptions{}), key("rising"), func(_ context.Context, run *idem.Run) (string, error) {
			if run.Epoch() <= last {
				s.Errorf("epoch %d after %d", run.Epoch(), last)
			}
			last = run.Epoch()
			return "", errPlain
		})
		s.want(err, errPlain)
	}
}
