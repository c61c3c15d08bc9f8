package idemtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/idem"
)

// heldRules are about a lease while it is held, and about those who want it.
func heldRules() []leasedRule {
	return []leasedRule{
		{"Renewed", "work that takes longer than its lease keeps the key: duplicates all along never run it", heldRenewed},
		{"RenewalFails", "renewals that fail for a while cost nothing, and the observer is told", heldRenewalFails},
		{"LossCancels", "who can rely on the lease no more has the context ended, with the loss as its cause", heldLossCancels},
		{"LateIsFine", "a lease that is over and that nobody took does not void the work", heldLateIsFine},
		{"Crash", "after a crash a duplicate is told how long the lease has left, and takes over after it, not after the TTL", heldCrash},
		{"Cancelled", "a caller that goes after the effect loses no answer; one that has gone before claims nothing", heldCancelled},
		{"SaveIsTriedAgain", "an answer that the store refuses at first is stored all the same", heldSaveIsTriedAgain},
		{"Waits", "a duplicate of another process waits for the answer, and gives up on time", heldWaits},
		{"Together", "duplicates in one process share a claim, and one in its own closure is refused", heldTogether},
		{"Storm", "of a hundred callers in ten processes one runs, and no other gets an error of the store", heldStorm},
		{"LostReplies", "a claim, a step and an answer whose replies are lost have their effect once", heldLostReplies},
	}
}

// working is a closure that is at it until the lease is over for certain.
func (s *leasedSuite) working(name string) func(context.Context, *idem.Run) (string, error) {
	return func(context.Context, *idem.Run) (string, error) {
		s.charge(name)
		time.Sleep(3 * short) // the work takes that long
		return name, nil
	}
}

// B3.
func heldRenewed(s *leasedSuite) {
	begun, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		_, err := idem.DoLeased(s.ctx, s.process(idem.LeaseOptions{Lease: short}), key("long"), func(ctx context.Context, run *idem.Run) (string, error) {
			close(begun)
			return s.working("long")(ctx, run)
		})
		if err != nil {
			s.Error(err)
		}
	}()
	<-begun
	other := s.process(idem.LeaseOptions{Lease: short})
	for over := false; !over; {
		_, err := idem.DoLeased(s.ctx, other, key("long"), s.working("long"))
		if err != nil && !errors.Is(err, idem.ErrInFlight) {
			s.Error(err)
		}
		select {
		case <-done:
			over = true
		case <-time.After(20 * time.Millisecond):
		}
	}
	s.wantCharges("long", 1)
	list, err := other.List(s.ctx, idem.Filter{ID: key("long").ID()})
	if err != nil || len(list) != 1 || list[0].Attempts != 1 {
		s.Fatalf("listed %+v, %v", list, err)
	}
}

// A flaky store fails requests of one kind, the first times, before or after their effect.
type flaky struct {
	idem.Store

	renewals, claims, marks, answers atomic.Int32 // how many are to fail
	after                            bool
}

var errFlaky = errors.New("the store is away")

// fails reports whether a request is one of those.
func fails(left *atomic.Int32) bool { return left.Add(-1) >= 0 }

func (f *flaky) Renew(ctx context.Context, terms []idem.Term, lease time.Duration) ([]idem.Renewal, error) {
	if fails(&f.renewals) {
		return nil, errFlaky
	}
	return f.Store.Renew(ctx, terms, lease)
}

func (f *flaky) Claim(ctx context.Context, c idem.Claim) (idem.Record, error) {
	if !fails(&f.claims) {
		return f.Store.Claim(ctx, c)
	}
	if f.after {
		_, _ = f.Store.Claim(ctx, c)
	}
	return idem.Record{}, errFlaky
}

func (f *flaky) Mark(ctx context.Context, t idem.Term, steps []byte) (bool, error) {
	if !fails(&f.marks) {
		return f.Store.Mark(ctx, t, steps)
	}
	if f.after {
		_, _ = f.Store.Mark(ctx, t, steps)
	}
	return false, errFlaky
}

func (f *flaky) Complete(ctx context.Context, t idem.Term, a idem.Answer, ttl time.Duration) (bool, error) {
	if !fails(&f.answers) {
		return f.Store.Complete(ctx, t, a, ttl)
	}
	if f.after {
		_, _ = f.Store.Complete(ctx, t, a, ttl)
	}
	return false, errFlaky
}

// B36.
func heldRenewalFails(s *leasedSuite) {
	f, heard := &flaky{Store: s.store}, &events{}
	f.renewals.Store(2)
	keys := idem.NewLeasedOn(f, &idem.LeaseOptions{Lease: 3 * time.Second, RenewEvery: 50 * time.Millisecond, Observer: heard})
	ctx := holdfast.WithCorrelationID(s.ctx, "id")
	_, err := idem.DoLeased(ctx, keys, key("beats"), func(ctx context.Context, _ *idem.Run) (string, error) {
		for f.renewals.Load() > -2 { // two failed, two more did not
			select {
			case <-ctx.Done():
				return "", context.Cause(ctx)
			case <-time.After(10 * time.Millisecond):
			}
		}
		return "done", nil
	})
	s.must(err)
	if got := heard.kinds(s, "id"); got != "idem.claimed idem.renew_failed idem.renew_failed idem.completed " {
		s.Fatalf("heard %q", got)
	}
}

func heldLossCancels(s *leasedSuite) {
	heard := &events{}
	for name, keys := range map[string]*idem.Leased[*idem.Run]{
		"unreachable": idem.NewLeasedOn(unrenewing{s.store}, &idem.LeaseOptions{Lease: short, Observer: heard}),
		"taken":       s.process(idem.LeaseOptions{Lease: short, Observer: heard}),
	} {
		_, err := idem.DoLeased(s.ctx, keys, key(name), func(ctx context.Context, run *idem.Run) (string, error) {
			if name == "taken" { // by somebody who cannot wait
				list, err := s.store.List(s.ctx, idem.Filter{ID: key(name).ID()})
				s.must(err)
				held, err := s.store.Park(s.ctx, idem.Term{ID: list[0].ID, Nonce: list[0].Nonce, Epoch: list[0].Epoch}, idem.Parking{State: idem.Pending})
				if err != nil || !held {
					s.Errorf("parked %v, %v", held, err)
				}
			}
			<-ctx.Done()
			var lost *idem.LeaseLostError
			if cause := context.Cause(ctx); !errors.As(cause, &lost) || lost.Epoch != run.Epoch() || lost.Name != "charge" {
				s.Errorf("%s: cause %v", name, cause)
			}
			if err := run.Check(); !errors.Is(err, idem.ErrLeaseLost) {
				s.Errorf("%s: Check says %v", name, err)
			}
			_, err := idem.Step(ctx, run, idem.External[int]{Name: "late", Call: func(context.Context, string) (int, error) {
				s.Errorf("%s: a step was made", name)
				return 0, nil
			}})
			return "", err
		})
		s.want(err, idem.ErrLeaseLost)
		if got := heard.kinds(s, ""); !strings.Contains(got, "idem.lost ") {
			s.Fatalf("%s: heard %q", name, got)
		}
	}
}

// B47.
func heldLateIsFine(s *leasedSuite) {
	res, err := idem.DoLeased(s.ctx, s.deaf(), key("late"), s.working("late"))
	if err != nil || res.Value != "late" {
		s.Fatalf("got %+v, %v", res, err)
	}
	res, err = idem.DoLeased(s.ctx, s.process(idem.LeaseOptions{}), key("late"), s.working("late"))
	if err != nil || !res.Replayed {
		s.Fatalf("got %+v, %v", res, err)
	}
	s.wantCharges("late", 1)
}

// B6.
func heldCrash(s *leasedSuite) {
	keys, m := s.mortal()
	crashed := make(chan struct{})
	go func() {
		_, _ = idem.DoLeased(s.ctx, keys, key("crash"), func(ctx context.Context, _ *idem.Run) (string, error) {
			s.must(m.kill())
			close(crashed)
			<-ctx.Done()
			return "", errDead
		})
	}()
	<-crashed
	_, err := idem.DoLeased(s.ctx, s.process(idem.LeaseOptions{}), key("crash"), paying[*idem.Run](s, "crash", "too soon"))
	var busy *idem.InFlightError
	if !errors.As(err, &busy) || busy.RetryAfter > short+time.Millisecond {
		s.Fatalf("got %v", err)
	}
	res, err := idem.DoLeased(s.ctx, s.process(patient), key("crash"), paying[*idem.Run](s, "crash", "second"))
	if err != nil || res.Replayed || res.Value != "second" {
		s.Fatalf("got %+v, %v", res, err)
	}
	s.wantCharges("crash", 1)
}

// B7, B9.
func heldCancelled(s *leasedSuite) {
	gone, hangUp := context.WithCancel(s.ctx)
	hangUp()
	_, err := idem.DoLeased(gone, s.process(idem.LeaseOptions{}), key("cancelled"), paying[*idem.Run](s, "cancelled", "no"))
	if s.want(err, context.Canceled); holdfast.OutcomeOf(err) != holdfast.NotApplied {
		s.Fatalf("outcome %v", holdfast.OutcomeOf(err))
	}
	ctx, hangUp := context.WithCancel(s.ctx)
	res, err := idem.DoLeased(ctx, s.process(idem.LeaseOptions{}), key("cancelled"), func(ctx context.Context, _ *idem.Run) (string, error) {
		s.charge("cancelled")
		hangUp()
		<-ctx.Done() // it is that of the caller
		return "done", nil
	})
	if err != nil || res.Value != "done" || res.Replayed {
		s.Fatalf("got %+v, %v", res, err)
	}
	res, err = idem.DoLeased(s.ctx, s.process(idem.LeaseOptions{}), key("cancelled"), paying[*idem.Run](s, "cancelled", "no"))
	if err != nil || !res.Replayed {
		s.Fatalf("got %+v, %v", res, err)
	}
	s.wantCharges("cancelled", 1)
}

func heldSaveIsTriedAgain(s *leasedSuite) {
	f := &flaky{Store: s.store}
	f.answers.Store(3)
	res, err := idem.DoLeased(s.ctx, idem.NewLeasedOn(f, nil), key("again"), paying[*idem.Run](s, "again", "done"))
	if err != nil || res.Value != "done" || f.answers.Load() >= 0 {
		s.Fatalf("got %+v, %v", res, err)
	}
	res, err = idem.DoLeased(s.ctx, s.process(idem.LeaseOptions{}), key("again"), paying[*idem.Run](s, "again", "no"))
	if err != nil || !res.Replayed {
		s.Fatalf("got %+v, %v", res, err)
	}
}

// B4, B5, B12.
func heldWaits(s *leasedSuite) {
	for round := range 5 {
		name := fmt.Sprint("waited for ", round)
		var wg sync.WaitGroup
		running, release := make(chan struct{}), make(chan struct{})
		wg.Go(func() {
			_, err := idem.DoLeased(s.ctx, s.process(idem.LeaseOptions{}), key(name), func(context.Context, *idem.Run) (string, error) {
				s.charge(name)
				close(running)
				<-release
				return "first", nil
			})
			if err != nil {
				s.Error(err)
			}
		})
		<-running
		hurried := s.process(idem.LeaseOptions{Wait: 30 * time.Millisecond})
		_, err := idem.DoLeased(s.ctx, hurried, key(name), paying[*idem.Run](s, name, "second"))
		s.want(err, idem.ErrInFlight)
		for range 5 {
			wg.Go(func() {
				res, err := idem.DoLeased(s.ctx, s.process(patient), key(name), paying[*idem.Run](s, name, "second"))
				if err != nil || !res.Replayed || res.Value != "first" {
					s.Errorf("got %+v, %v", res, err)
				}
			})
		}
		close(release)
		wg.Wait()
		s.wantCharges(name, 1)
	}
}

func heldTogether(s *leasedSuite) {
	counted := &claims{Store: s.store}
	keys := idem.NewLeasedOn(counted, &idem.LeaseOptions{Wait: time.Minute})
	release := make(chan struct{})
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			res, err := idem.DoLeased(s.ctx, keys, key("together"), func(ctx context.Context, _ *idem.Run) (string, error) {
				var busy *idem.InFlightError
				for _, inner := range []*idem.Leased[*idem.Run]{keys, s.process(idem.LeaseOptions{Wait: time.Hour})} {
					if _, err := idem.DoLeased(ctx, inner, key("together"), paying[*idem.Run](s, "together", "inner")); !errors.As(err, &busy) || !busy.Nested {
						s.Errorf("inside itself: %v", err)
					}
				}
				s.charge("together")
				<-release
				return "one", nil
			})
			if err != nil || res.Value != "one" {
				s.Errorf("got %+v, %v", res, err)
			}
		})
	}
	close(release)
	wg.Wait()
	s.wantCharges("together", 1)
}

// claims counts those of a process.
type claims struct {
	idem.Store

	n atomic.Int32
}

func (c *claims) Claim(ctx context.Context, claim idem.Claim) (idem.Record, error) {
	c.n.Add(1)
	return c.Store.Claim(ctx, claim)
}

// B15.
func heldStorm(s *leasedSuite) {
	for round := range 5 {
		name := fmt.Sprint("storm ", round)
		var wg sync.WaitGroup
		for range 10 {
			hurried, waiting := s.process(idem.LeaseOptions{}), s.process(patient)
			for i := range 10 {
				keys := []*idem.Leased[*idem.Run]{hurried, waiting}[i%2]
				wg.Go(func() {
					res, err := idem.DoLeased(s.ctx, keys, key(name), paying[*idem.Run](s, name, "one"))
					if err == nil && res.Value == "one" || i%2 == 0 && errors.Is(err, idem.ErrInFlight) {
						return
					}
					s.Errorf("got %+v, %v", res, err)
				})
			}
		}
		wg.Wait()
		s.wantCharges(name, 1)
	}
}

func heldLostReplies(s *leasedSuite) {
	for kind, spoil := range map[string]func(*flaky){
		"claim":  func(f *flaky) { f.claims.Store(1) },
		"start":  func(f *flaky) { f.marks.Store(1) },
		"answer": func(f *flaky) { f.answers.Store(2) },
	} {
		for _, after := range []bool{false, true} {
			p, f := &provider{}, &flaky{Store: s.store, after: after}
			spoil(f)
			keys, k := idem.NewLeasedOn(f, &patient), key(fmt.Sprint(kind, after))
			for ok := false; !ok; {
				res, err := idem.DoLeased(s.ctx, keys, k, charging[*idem.Run](p.step(fine)))
				switch {
				case err == nil:
					ok = res.Value == "charged"
				case !errors.Is(err, errFlaky) && !errors.Is(err, idem.ErrInFlight):
					s.Fatalf("%s: %v", kind, err)
				}
			}
			s.wantCharged(p, 1)
		}
	}
}
