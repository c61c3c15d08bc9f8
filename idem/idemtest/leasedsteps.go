package idemtest

import (
	"context"
	"errors"
	"runtime"
	"strings"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/idem"
)

func stepRules() []leasedRule {
	return []leasedRule{
		{"StepIsRecorded", "a step that is recorded is not made again by an execution that comes after, and has the same result", stepIsRecorded},
		{"StepLanded", "a step whose process died after the call is found by Reconcile and not made again", stepLanded},
		{"StepAbsent", "a step whose process died before the call is made, with the same child key", stepAbsent},
		{"StepUnsure", "a step of which nobody knows is not made and the key not freed, until somebody knows", stepUnsure},
		{"StepWithoutReconcile", "a step that had begun and has no Reconcile leaves the key to a person, or is made again where the policy is Rerun", stepWithoutReconcile},
		{"StepFails", "an error that proves nothing leaves the key unknown, whatever the closure makes of it; one that proves that nothing was done frees it", stepFails},
		{"StepPanics", "a panic or Goexit in a call goes on up and leaves the step unknown; before any step it frees the key", stepPanics},
		{"StepNotRecorded", "what could not be recorded before the lease ended is told as unknown, is never freed, and is found later", stepNotRecorded},
		{"StepRules", "a step of another version, out of order, or made twice is refused before the call", stepIsRefused},
		{"ChildKeys", "child keys differ by key, step and version, and are the same for every execution", childKeys},
	}
}

func stepIsRecorded(s *leasedSuite) {
	p, keys := &provider{}, s.process(patient)
	twice := func(ctx context.Context, run *idem.Run) (string, error) {
		v, err := idem.Step(ctx, run, p.step(fine))
		if err != nil || run.Attempt() > 2 {
			return v + " and done", err
		}
		return "", errPlain
	}
	for i := range 2 {
		_, err := idem.DoLeased(s.ctx, keys, key("recorded"), twice)
		if s.want(err, errPlain); holdfast.OutcomeOf(err) != holdfast.Unknown {
			s.Fatalf("call %d: outcome %v of a part that is done", i+1, holdfast.OutcomeOf(err))
		}
		list, err := keys.List(s.ctx, idem.Filter{States: []idem.State{idem.Pending}})
		if err != nil || len(list) != 1 || len(list[0].Made) != 1 || !list[0].Made[0].Saved {
			s.Fatalf("call %d: listed %+v, %v", i+1, list, err)
		}
	}
	if res := s.eventually(keys, key("recorded"), twice); res.Value != "charged and done" || res.Replayed {
		s.Fatalf("got %+v", res)
	}
	s.wantCharged(p, 1)
}

// B41, B10: the process is dead before it can record what it did.
func stepLanded(s *leasedSuite) {
	p := &provider{}
	s.die(s.mortal, key("landed"), func(m *mortal) func(context.Context, *idem.Run) (string, error) {
		return charging[*idem.Run](p.step(m.kill))
	})
	res := s.eventually(s.process(patient), key("landed"), charging[*idem.Run](p.step(fine)))
	if res.Value != "found" || res.Replayed {
		s.Fatalf("got %+v", res)
	}
	s.wantCharged(p, 1)
}

func stepAbsent(s *leasedSuite) {
	p := &provider{}
	s.die(s.mortal, key("absent"), func(m *mortal) func(context.Context, *idem.Run) (string, error) {
		dead := p.step(fine)
		dead.Call = func(context.Context, string) (string, error) { return "", errors.Join(m.kill(), errDead) }
		return charging[*idem.Run](dead)
	})
	if res := s.eventually(s.process(patient), key("absent"), charging[*idem.Run](p.step(fine))); res.Value != "charged" {
		s.Fatalf("got %+v", res)
	}
	s.wantCharged(p, 1)
}

func stepUnsure(s *leasedSuite) {
	p, keys := &provider{}, s.process(patient)
	lost := p.step(func() error { return errPlain })
	lost.Reconcile = func(context.Context, string) (string, idem.Landing, error) { return "no", idem.Landed, errPlain }
	for i := range 5 {
		_, err := idem.DoLeased(s.ctx, keys, key("unsure"), charging[*idem.Run](lost))
		var unknown *idem.UnknownError
		if !errors.As(err, &unknown) || holdfast.OutcomeOf(err) != holdfast.Unknown || !strings.Contains(err.Error(), `step "charge"`) {
			s.Fatalf("call %d: got %v", i+1, err)
		}
		list, err := keys.List(s.ctx, idem.Filter{States: []idem.State{idem.Unknown}})
		if err != nil || len(list) != 1 || len(list[0].Made) != 1 || list[0].Made[0].Saved || list[0].Note == "" {
			s.Fatalf("call %d: listed %+v, %v", i+1, list, err)
		}
		lost.Reconcile = func(context.Context, string) (string, idem.Landing, error) { return "", idem.Unsure, nil }
	}
	if res := s.eventually(keys, key("unsure"), charging[*idem.Run](p.step(fine))); res.Value != "found" {
		s.Fatalf("got %+v", res)
	}
	s.wantCharged(p, 1)
}

func stepWithoutReconcile(s *leasedSuite) {
	p := &provider{}
	begin := func(name string) idem.External[string] {
		blind := p.step(fine)
		blind.Reconcile = nil
		s.die(s.mortal, key(name), func(m *mortal) func(context.Context, *idem.Run) (string, error) {
			dead := blind
			dead.Call = p.step(m.kill).Call
			return charging[*idem.Run](dead)
		})
		return blind
	}
	blind := begin("blind")
	for range 3 {
		_, err := idem.DoLeased(s.ctx, s.process(patient), key("blind"), charging[*idem.Run](blind))
		s.want(err, idem.ErrOutcomeUnknown)
	}
	s.wantCharged(p, 1)
	blind, p.charge = begin("rerun"), nil
	rerun := patient
	rerun.OnExpiry = idem.Rerun
	if res := s.eventually(s.process(rerun), key("rerun"), charging[*idem.Run](blind)); res.Value != "charged" {
		s.Fatalf("got %+v", res)
	}
	s.wantCharged(p, 1)
}

func stepFails(s *leasedSuite) {
	for name, c := range map[string]struct {
		err   error // of the call
		end   func(string, error) (string, error)
		wants error
		state idem.State
	}{
		"plain":     {errPlain, func(v string, err error) (string, error) { return v, err }, idem.ErrOutcomeUnknown, idem.Unknown},
		"503":       {&idem.Failure{Status: 503}, func(v string, err error) (string, error) { return v, err }, idem.ErrOutcomeUnknown, idem.Unknown},
		"swallowed": {errPlain, func(string, error) (string, error) { return "fine", nil }, idem.ErrOutcomeUnknown, idem.Unknown},
		"terminal":  {errPlain, func(_ string, err error) (string, error) { return "", idem.Terminal(err) }, idem.ErrOutcomeUnknown, idem.Unknown},
		"402":       {&idem.Failure{Status: 402}, func(v string, err error) (string, error) { return v, err }, idem.ErrFailed, idem.Failed},
		"unsent":    {proved{errPlain}, func(v string, err error) (string, error) { return v, err }, errPlain, 0},
	} {
		p, keys := &provider{}, s.process(patient)
		failing := p.step(func() error { return c.err })
		_, err := idem.DoLeased(s.ctx, keys, key(name), func(ctx context.Context, run *idem.Run) (string, error) {
			return c.end(idem.Step(ctx, run, failing))
		})
		if !errors.Is(err, c.wants) {
			s.Fatalf("%s: got %v", name, err)
		}
		list, err := keys.List(s.ctx, idem.Filter{ID: key(name).ID()})
		s.must(err)
		state := idem.State(0) // the key is free
		if len(list) == 1 {
			state = list[0].State
		}
		if state != c.state {
			s.Fatalf("%s: the key is %v, want %v", name, state, c.state)
		}
		s.wantCharged(p, 1)
	}
}

// proved is an error that proves that nothing was done.
type proved struct{ error }

func (proved) Outcome() holdfast.Outcome { return holdfast.NotApplied }
func (p proved) Unwrap() error           { return p.error }

func stepPanics(s *leasedSuite) {
	for name, end := range map[string]func(){"panic": func() { panic(errPlain) }, "goexit": runtime.Goexit} {
		p, keys := &provider{}, s.process(patient)
		s.ends(name, func() {
			_, _ = idem.DoLeased(s.ctx, keys, key("early "+name), func(context.Context, *idem.Run) (string, error) {
				end()
				return "", nil
			})
		})
		res, err := idem.DoLeased(s.ctx, keys, key("early "+name), paying[*idem.Run](s, "early "+name, "done"))
		if err != nil || res.Replayed {
			s.Fatalf("%s before any step: got %+v, %v", name, res, err)
		}
		s.ends(name, func() {
			_, _ = idem.DoLeased(s.ctx, keys, key(name), charging[*idem.Run](p.step(func() error { end(); return nil })))
		})
		list, err := keys.List(s.ctx, idem.Filter{ID: key(name).ID()})
		if err != nil || len(list) != 1 || list[0].State != idem.Unknown {
			s.Fatalf("%s in a step: listed %+v, %v", name, list, err)
		}
		if res := s.eventually(keys, key(name), charging[*idem.Run](p.step(fine))); res.Value != "found" {
			s.Fatalf("%s: got %+v", name, res)
		}
		s.wantCharged(p, 1)
	}
}

// ends fails unless fn ends its goroutine, by a panic with errPlain or by Goexit.
func (s *leasedSuite) ends(name string, fn func()) {
	s.Helper()
	returned, value := false, any(nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { value = recover() }()
		fn()
		returned = true
	}()
	<-done
	if returned || name == "panic" && value != any(errPlain) || name != "panic" && value != nil {
		s.Fatalf("%s: returned %v, recovered %v", name, returned, value)
	}
}

func stepNotRecorded(s *leasedSuite) {
	p := &provider{}
	keys, m := s.mortal()
	_, err := idem.DoLeased(s.ctx, keys, key("not recorded"), func(ctx context.Context, run *idem.Run) (string, error) {
		if _, err := idem.Step(ctx, run, p.step(fine)); err != nil {
			return "", err
		}
		return "done", m.kill()
	})
	if s.want(err, idem.ErrNotRecorded); holdfast.OutcomeOf(err) != holdfast.Unknown || !errors.Is(err, errDead) {
		s.Fatalf("got %v, which is %v", err, holdfast.OutcomeOf(err))
	}
	if res := s.eventually(s.process(patient), key("not recorded"), charging[*idem.Run](p.step(fine))); res.Value != "charged" {
		s.Fatalf("got %+v", res)
	}
	s.wantCharged(p, 1)
}

func stepIsRefused(s *leasedSuite) {
	p, keys := &provider{}, s.process(patient)
	_, err := idem.DoLeased(s.ctx, keys, key("refused"), func(ctx context.Context, run *idem.Run) (string, error) {
		if _, err := idem.Step(ctx, run, p.step(fine)); err != nil {
			return "", err
		}
		_, again := idem.Step(ctx, run, p.step(fine))
		for name, x := range map[string]idem.External[string]{
			"no call": {Name: "x"}, "no name": {Call: p.step(fine).Call}, "control": {Name: "a\x00b", Call: p.step(fine).Call},
			"not UTF-8": {Name: "\xff", Call: p.step(fine).Call}, "long": {Name: strings.Repeat("x", 256), Call: p.step(fine).Call},
		} {
			if _, err := idem.Step(ctx, run, x); !errors.Is(err, idem.ErrStep) || holdfast.OutcomeOf(err) != holdfast.NotApplied {
				s.Errorf("%s: got %v", name, err)
			}
		}
		return "", errors.Join(errPlain, again)
	})
	if !errors.Is(err, errPlain) || !errors.Is(err, idem.ErrStep) {
		s.Fatalf("got %v", err)
	}
	for name, x := range map[string]idem.External[string]{
		"another version": {Name: "charge", Version: 1, Call: p.step(fine).Call},
		"another order":   {Name: "other", Call: p.step(fine).Call},
	} {
		for ran := false; !ran; {
			_, err = idem.DoLeased(s.ctx, keys, key("refused"), func(ctx context.Context, run *idem.Run) (string, error) {
				ran = true
				return idem.Step(ctx, run, x)
			})
		}
		if !errors.Is(err, idem.ErrStep) {
			s.Fatalf("%s: got %v", name, err)
		}
	}
	s.wantCharged(p, 1)
}

func childKeys(s *leasedSuite) {
	seen := map[string]string{}
	for _, value := range []string{"a", "b"} {
		for _, name := range []string{"charge", "charge2"} {
			for version := range 2 {
				var got string
				_, err := idem.DoLeased(s.ctx, s.process(patient), key(value+name+string(rune('0'+version))), func(ctx context.Context, run *idem.Run) (string, error) {
					_, err := idem.Step(ctx, run, idem.External[string]{Name: name, Version: version, Call: func(_ context.Context, childKey string) (string, error) {
						got = childKey
						return "", nil
					}})
					if version == 0 && run.ChildKey(name) != got {
						s.Errorf("%q, and %q in the step", run.ChildKey(name), got)
					}
					return "", err
				})
				s.must(err)
				if seen[got] != "" || len(got) != 32 || strings.Trim(got, "abcdefghijklmnopqrstuvwxyz234567") != "" {
					s.Fatalf("child key %q of %s %s %d, and of %q", got, value, name, version, seen[got])
				}
				seen[got] = value + name
			}
		}
	}
}
