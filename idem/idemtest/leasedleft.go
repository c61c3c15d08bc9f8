package idemtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/idem"
)

// leftRules are about keys that somebody has left without an answer.
func leftRules() []leasedRule {
	return []leasedRule{
		{"Completer", "what a process has left is done by the handlers of another, with the input that it had", leftToTheCompleter},
		{"CompletersShare", "several completers do each key once, and run only what they claimed", leftToSeveral},
		{"MaxAttempts", "a key that fails time and again waits for a person in the end", leftForGood},
		{"Blocked", "where the policy is Block nothing runs after an expiry, and a person unblocks the key", leftBlocked},
		{"Decided", "a person's decision is the answer, or lets the step be made, and fences off who still thinks to have the key", leftToAPerson},
		{"Listed", "keys are listed by scope, name, state and age, page by page", leftListed},
		{"Sealed", "steps and inputs are sealed as answers are, and do not open as those of another key", leftSealed},
		{"Expired", "a key whose answer has expired is refused, or is new where reuse is allowed", leftToExpire},
		{"LeasedInputs", "hostile input is refused with an error that says what is wrong", leftHostile},
	}
}

type order struct{ Amount int }

// handled returns a process with a handler that charges at p.
func (s *leasedSuite) handled(store idem.Store, o idem.LeaseOptions, p *provider, then func() error) (*idem.Leased[*idem.Run], *idem.Handler[*idem.Run, order, string]) {
	keys := idem.NewLeasedOn(store, &o)
	return keys, idem.Handle(keys, "charge", func(ctx context.Context, run *idem.Run, in order) (string, error) {
		v, err := idem.Step(ctx, run, p.step(then))
		return fmt.Sprint(v, " ", in.Amount), err
	})
}

// leave leaves a key whose process died in the step.
func (s *leasedSuite) leave(p *provider, value string) {
	s.Helper()
	for {
		m := &mortal{Store: s.store}
		_, handler := s.handled(m, idem.LeaseOptions{Lease: short, Wait: time.Minute}, p, m.kill)
		_, err := handler.Do(s.ctx, key(value), order{Amount: 100})
		if m.dead.Load() {
			s.want(err, idem.ErrOutcomeUnknown)
			return
		}
		if s.ctx.Err() != nil {
			s.Fatal(err)
		}
	}
}

func leftToTheCompleter(s *leasedSuite) {
	p, heard := &provider{}, &events{}
	s.leave(p, "left")
	o := patient
	o.Observer = heard
	keys, handler := s.handled(s.store, o, p, fine)
	for n := int64(0); n == 0; {
		var err error
		n, err = keys.Complete(s.ctx)
		s.must(err)
	}
	if got := heard.kinds(s, ""); got != "idem.taken_over idem.reconciled idem.step_saved idem.completed " {
		s.Fatalf("heard %q", got)
	}
	res, err := handler.Do(s.ctx, key("left"), order{Amount: 100})
	if err != nil || !res.Replayed || res.Value != "found 100" {
		s.Fatalf("got %+v, %v", res, err)
	}
	_, err = handler.Do(s.ctx, key("left"), order{Amount: 200})
	s.want(err, idem.ErrMismatch)
	s.wantCharged(p, 1)
	if n, err := keys.Complete(s.ctx); n != 0 || err != nil {
		s.Fatalf("nothing is due: %d, %v", n, err)
	}
}

func leftToSeveral(s *leasedSuite) {
	const keysLeft = 8
	p := &provider{}
	var wg sync.WaitGroup
	for i := range keysLeft {
		wg.Go(func() { s.leave(p, fmt.Sprint("several ", i)) })
	}
	wg.Wait()
	var mu sync.Mutex // guards total
	total := int64(0)
	for range 4 {
		keys, _ := s.handled(s.store, patient, p, fine)
		wg.Go(func() {
			for {
				n, err := keys.Complete(s.ctx)
				if err != nil {
					s.Error(err)
					return
				}
				mu.Lock()
				total += n
				over := total >= keysLeft
				mu.Unlock()
				if over {
					return
				}
			}
		})
	}
	wg.Wait()
	if charges, keys := p.charges(); total != keysLeft || charges != keysLeft || keys != keysLeft {
		s.Fatalf("%d answers, %d charges of %d keys", total, charges, keys)
	}
}

func leftForGood(s *leasedSuite) {
	o := patient
	o.MaxAttempts = 3
	keys, runs := s.process(o), 0
	unsure := (&provider{}).step(func() error { return errPlain })
	unsure.Reconcile = func(context.Context, string) (string, idem.Landing, error) { return "", idem.Unsure, nil }
	for unknown := new(idem.UnknownError); runs < 3 || unknown.RetryAfter != 0; {
		_, err := idem.DoLeased(s.ctx, keys, key("for good"), func(ctx context.Context, run *idem.Run) (string, error) {
			runs = run.Attempt()
			return idem.Step(ctx, run, unsure)
		})
		if !errors.As(err, &unknown) {
			s.Fatal(err)
		}
	}
	for range 3 {
		_, err := idem.DoLeased(s.ctx, keys, key("for good"), charging[*idem.Run](unsure))
		s.want(err, idem.ErrOutcomeUnknown)
	}
	if runs != 3 {
		s.Fatalf("%d executions", runs)
	}
}

// B8.
func leftBlocked(s *leasedSuite) {
	p := &provider{}
	s.leave(p, "blocked")
	blocking := patient
	blocking.OnExpiry = idem.Block
	keys, handler := s.handled(s.store, blocking, p, fine)
	list := s.awaitState(keys, key("blocked"), idem.Unknown)
	for range 3 {
		_, err := handler.Do(s.ctx, key("blocked"), order{Amount: 100})
		var unknown *idem.UnknownError
		if !errors.As(err, &unknown) || unknown.RetryAfter != 0 {
			s.Fatalf("got %v", err)
		}
	}
	s.wantCharged(p, 1)
	ok, err := keys.Resolve(s.ctx, list.ID, "anna", idem.AsNotDone())
	if err != nil || !ok {
		s.Fatalf("resolved %v, %v", ok, err)
	}
	res, err := handler.Do(s.ctx, key("blocked"), order{Amount: 100})
	if err != nil || res.Value != "charged 100" {
		s.Fatalf("got %+v, %v", res, err)
	}
	s.wantCharged(p, 2) // as she said
}

// awaitState completes until a key is in a state, and returns it.
func (s *leasedSuite) awaitState(keys *idem.Leased[*idem.Run], k idem.Key, state idem.State) idem.Listed {
	s.Helper()
	for s.ctx.Err() == nil {
		_, err := keys.Complete(s.ctx)
		s.must(err)
		list, err := keys.List(s.ctx, idem.Filter{ID: k.ID(), States: []idem.State{state}})
		s.must(err)
		if len(list) == 1 {
			return list[0]
		}
	}
	s.Fatalf("the key did not become %v", state)
	return idem.Listed{}
}

func leftToAPerson(s *leasedSuite) {
	for name, c := range map[string]struct {
		decision idem.Decision
		value    string
		err      error
	}{
		"completed": {idem.AsCompleted("seen"), "seen", nil},
		"failed":    {idem.AsFailed(&idem.Failure{Status: 402}), "", idem.ErrFailed},
		"not done":  {idem.AsNotDone(), "charged", nil},
	} {
		p, heard := &provider{}, &events{}
		keys := s.process(idem.LeaseOptions{Observer: heard, RetryAfter: time.Hour, LongestRetry: time.Hour})
		zombie := s.deaf()
		_, err := idem.DoLeased(s.ctx, zombie, key(name), func(ctx context.Context, run *idem.Run) (string, error) {
			if ok, err := keys.Resolve(s.ctx, key(name).ID(), "anna", c.decision); !errors.Is(err, idem.ErrInFlight) || ok {
				s.Errorf("%s: of a running key: %v, %v", name, ok, err)
			}
			_, _ = idem.Step(ctx, run, p.step(func() error { return errPlain }))
			<-ctx.Done()
			for ok := false; !ok; {
				if ok, err := keys.Resolve(s.ctx, key(name).ID(), "anna", c.decision); ok && err == nil {
					break
				} else if !errors.Is(err, idem.ErrInFlight) {
					s.Fatalf("%s: %v, %v", name, ok, err)
				}
			}
			return "zombie", nil
		})
		s.want(err, idem.ErrLeaseLost)
		if got := heard.kinds(s, ""); !strings.HasSuffix(got, "idem.resolved ") {
			s.Fatalf("%s: heard %q", name, got)
		}
		res, err := idem.DoLeased(s.ctx, keys, key(name), charging[*idem.Run](p.step(fine)))
		if !errors.Is(err, c.err) || res.Value != c.value {
			s.Fatalf("%s: got %+v, %v", name, res, err)
		}
		if ok, err := keys.Resolve(s.ctx, key(name).ID(), "anna", c.decision); ok || err != nil {
			s.Fatalf("%s: of a key that has an answer: %v, %v", name, ok, err)
		}
	}
	if ok, err := s.process(patient).Resolve(s.ctx, key("never").ID(), "anna", idem.AsNotDone()); ok || err != nil {
		s.Fatalf("of no key: %v, %v", ok, err)
	}
}

func leftListed(s *leasedSuite) {
	keys := s.process(idem.LeaseOptions{})
	pend := func(context.Context, *idem.Run) (string, error) { return "", errPlain }
	for i := range 7 {
		for _, k := range []idem.Key{
			{Scope: "a", Name: "open", Value: fmt.Sprint(i)}, {Scope: "b", Name: "open", Value: fmt.Sprint(i)}, {Scope: "a", Name: "done", Value: fmt.Sprint(i)},
		} {
			_, err := idem.DoLeased(s.ctx, keys, k, func(ctx context.Context, run *idem.Run) (string, error) {
				if k.Name == "done" {
					return "done", nil
				}
				if _, err := idem.Step(ctx, run, (&provider{}).step(fine)); err != nil {
					s.Error(err)
				}
				return pend(ctx, run)
			})
			if k.Name != "done" {
				s.want(err, errPlain)
			}
		}
	}
	for name, c := range map[string]struct {
		f    idem.Filter
		want int
	}{
		"all":        {idem.Filter{}, 21},
		"scope":      {idem.Filter{Scope: "a"}, 14},
		"name":       {idem.Filter{Name: "open"}, 14},
		"both":       {idem.Filter{Scope: "b", Name: "open"}, 7},
		"completed":  {idem.Filter{States: []idem.State{idem.Completed}}, 7},
		"open":       {idem.Filter{States: []idem.State{idem.Running, idem.Unknown, idem.Pending}}, 14},
		"running":    {idem.Filter{States: []idem.State{idem.Running}}, 0},
		"old":        {idem.Filter{OlderThan: time.Hour}, 0},
		"one":        {idem.Filter{ID: idem.Key{Scope: "a", Name: "done", Value: "1"}.ID()}, 1},
		"no such":    {idem.Filter{ID: idem.Key{Scope: "a", Name: "done", Value: "x"}.ID()}, 0},
		"injection":  {idem.Filter{Scope: "a' or true --"}, 0},
		"of no page": {idem.Filter{Limit: -1}, 21},
	} {
		seen := map[idem.ID]bool{}
		for _, limit := range []int{c.f.Limit, 3} {
			clear(seen)
			f := c.f
			f.Limit = limit
			for last := (time.Time{}); ; {
				page, err := keys.List(s.ctx, f)
				s.must(err)
				for _, r := range page {
					if seen[r.ID] || r.Created.Before(last) {
						s.Fatalf("%s: %v twice, or out of order", name, r.ID)
					}
					seen[r.ID], last = true, r.Created
				}
				if len(page) == 0 || limit <= 0 && len(page) < 100 {
					break
				}
				f.After = page[len(page)-1].Record
			}
			if len(seen) != c.want {
				s.Fatalf("%s by %d: %d keys, want %d", name, limit, len(seen), c.want)
			}
		}
	}
}

func leftSealed(s *leasedSuite) {
	secret := make([]byte, 32)
	codec, err := idem.AESGCM(16, secret)
	s.must(err)
	p, watched := &provider{}, &watcher{Store: s.store}
	o := patient
	o.Codecs = []idem.Codec{codec}
	_, handler := s.handled(watched, o, p, fine)
	_, err = handler.Do(s.ctx, key("sealed"), order{Amount: 4711})
	s.must(err)
	if len(watched.seen) < 4 {
		s.Fatalf("%d texts were stored", len(watched.seen))
	}
	for _, text := range watched.seen {
		if strings.Contains(text, "4711") || strings.Contains(text, "charge") {
			s.Fatalf("%q is stored in plain", text)
		}
	}
	// The steps of one key do not open as those of another, nor its input as steps.
	for i, swap := range []string{watched.seen[1], watched.seen[0]} {
		k := key(fmt.Sprint("swapped ", i))
		_, err = idem.DoLeased(s.ctx, idem.NewLeasedOn(s.store, &o), k, func(_ context.Context, run *idem.Run) (string, error) {
			list, err := s.store.List(s.ctx, idem.Filter{ID: k.ID()})
			s.must(err)
			term := idem.Term{ID: k.ID(), Nonce: list[0].Nonce, Epoch: run.Epoch()}
			held, err := s.store.Mark(s.ctx, term, []byte(swap))
			if err != nil || !held {
				s.Errorf("marked %v, %v", held, err)
			}
			held, err = s.store.Park(s.ctx, term, idem.Parking{State: idem.Pending})
			if err != nil || !held {
				s.Errorf("parked %v, %v", held, err)
			}
			return "", nil
		})
		s.want(err, idem.ErrLeaseLost)
		for range 2 {
			_, err = idem.DoLeased(s.ctx, idem.NewLeasedOn(s.store, &o), k, paying[*idem.Run](s, "swapped", "no"))
			if !errors.Is(err, idem.ErrOutcomeUnknown) {
				s.Fatalf("got %v", err)
			}
		}
	}
	s.wantCharges("swapped", 0)
}

// A watcher keeps what is stored.
type watcher struct {
	idem.Store

	seen []string
}

func (w *watcher) Claim(ctx context.Context, c idem.Claim) (idem.Record, error) {
	w.seen = append(w.seen, string(c.Input))
	return w.Store.Claim(ctx, c)
}

func (w *watcher) Mark(ctx context.Context, t idem.Term, steps []byte) (bool, error) {
	w.seen = append(w.seen, string(steps))
	return w.Store.Mark(ctx, t, steps)
}

func (w *watcher) Complete(ctx context.Context, t idem.Term, a idem.Answer, ttl time.Duration) (bool, error) {
	w.seen = append(w.seen, string(a.Body))
	return w.Store.Complete(ctx, t, a, ttl)
}

// B42, B46.
func leftToExpire(s *leasedSuite) {
	brief := s.process(idem.LeaseOptions{TTL: 50 * time.Millisecond})
	var first int64
	_, err := idem.DoLeased(s.ctx, brief, key("expiring"), func(_ context.Context, run *idem.Run) (string, error) {
		first = run.Epoch()
		return "first", nil
	})
	s.must(err)
	for err == nil {
		_, err = idem.DoLeased(s.ctx, s.process(idem.LeaseOptions{}), key("expiring"), paying[*idem.Run](s, "expiring", "again"))
	}
	s.want(err, idem.ErrKeyExpired)
	s.wantCharges("expiring", 0)
	other := key("expiring")
	other.Fingerprint = idem.FingerprintOf("another request")
	reusing := s.process(idem.LeaseOptions{AllowReuse: true})
	res, err := idem.DoLeased(s.ctx, reusing, other, func(_ context.Context, run *idem.Run) (string, error) {
		if run.Epoch() <= first || run.Attempt() != 1 {
			s.Errorf("epoch %d after %d, attempt %d", run.Epoch(), first, run.Attempt())
		}
		return "second", nil
	})
	if err != nil || res.Replayed || res.Value != "second" {
		s.Fatalf("got %+v, %v", res, err)
	}
	other.Fingerprint = idem.FingerprintOf("a third")
	_, err = idem.DoLeased(s.ctx, reusing, other, paying[*idem.Run](s, "expiring", "third"))
	s.want(err, idem.ErrMismatch)
}

func leftHostile(s *leasedSuite) {
	keys := s.process(idem.LeaseOptions{})
	for _, k := range []idem.Key{
		{Name: "charge", Value: "v"},
		{Scope: "tenant", Value: "v"},
		{Scope: "tenant", Name: "charge"},
		{Scope: "ten\x00ant", Name: "charge", Value: "v"},
		{Scope: "\xff", Name: "charge", Value: "v"},
		{Scope: strings.Repeat("s", 256), Name: "charge", Value: "v"},
	} {
		_, err := idem.DoLeased(s.ctx, keys, k, paying[*idem.Run](s, "hostile", "no"))
		if s.want(err, idem.ErrKeyInvalid); holdfast.OutcomeOf(err) != holdfast.NotApplied {
			s.Fatalf("outcome %v", holdfast.OutcomeOf(err))
		}
	}
	for _, f := range []idem.Filter{{Scope: "\x00"}, {Name: "\xff"}, {Scope: strings.Repeat("s", 256)}} {
		_, err := keys.List(s.ctx, f)
		s.want(err, idem.ErrKeyInvalid)
	}
	for _, by := range []string{"", "\x00", strings.Repeat("a", 256)} {
		_, err := keys.Resolve(s.ctx, key("v").ID(), by, idem.AsNotDone())
		s.want(err, idem.ErrKeyInvalid)
	}
	for _, d := range []idem.Decision{{}, idem.AsFailed(nil), idem.AsFailed(&idem.Failure{Status: 503}), idem.AsCompleted(make(chan int))} {
		if _, err := keys.Resolve(s.ctx, key("v").ID(), "anna", d); err == nil {
			s.Fatal("a decision that is none was taken")
		}
	}
	for name, o := range map[string]idem.LeaseOptions{
		"negative": {Lease: -1}, "no time": {Lease: time.Millisecond}, "rare": {RenewEvery: time.Minute}, "margin": {Margin: time.Minute},
		"policy": {OnExpiry: 7}, "workers": {Workers: -1}, "codec": {Codecs: []idem.Codec{nil}},
	} {
		_, err := idem.DoLeased(s.ctx, s.process(o), key("options"), paying[*idem.Run](s, "hostile", "no"))
		if err == nil || holdfast.OutcomeOf(err) != holdfast.NotApplied {
			s.Fatalf("%s: got %v", name, err)
		}
	}
	huge := strings.Repeat("x", 2<<20)
	for i := range 2 {
		res, err := idem.DoLeased(s.ctx, keys, key("huge"), paying[*idem.Run](s, "huge", huge))
		if i == 0 && (err != nil || res.Value != huge) || i == 1 && !errors.Is(err, idem.ErrNotRetained) {
			s.Fatalf("call %d: %v", i+1, err)
		}
	}
	_, err := idem.DoLeased(s.ctx, keys, key("note"), func(ctx context.Context, run *idem.Run) (string, error) {
		bad := errors.New("\x00\xff" + strings.Repeat("ü", 1000))
		return idem.Step(ctx, run, (&provider{}).step(func() error { return bad }))
	})
	s.want(err, idem.ErrOutcomeUnknown)
	if list, err := keys.List(s.ctx, idem.Filter{ID: key("note").ID()}); err != nil || len(list) != 1 || list[0].State != idem.Unknown {
		s.Fatalf("listed %+v, %v", list, err)
	}
	s.wantCharges("hostile", 0)
	s.wantCharges("huge", 1)
}
