package idemtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/tx"
)

// leasedTxRules are about leased keys that are in the database of the business transactions.
func leasedTxRules[T any]() []rule[T] {
	return []rule[T]{
		{"Finish", "the answer and the writes of the business transaction are one commit", finishes[T]},
		{"FinishFails", "what a business transaction wrote before an error is undone, and the key goes on from its steps", finishFails[T]},
		{"FinishFailure", "a failure that is final is the answer, and its writes are undone", finishFailure[T]},
		{"Zombie", "a zombie's writes are undone, also if it is taken over while it is committing", zombie[T]},
		{"Guard", "a zombie stops at the guard, and nobody takes over while a guarded transaction is open", guards[T]},
		{"FinishLong", "a business transaction may take longer than the lease, at every isolation level", finishLong[T]},
		{"NoTransaction", "no transaction is open during a step, and none is around the work", noTransaction[T]},
		{"Mixed", "a key that is used in both modes is done once, whichever has it", mixed[T]},
		{"MixedStorm", "of callers in both modes one runs", mixedStorm[T]},
		{"OpenKeysStay", "a sweeper, Delete, Release and Erase leave an open key alone, also when its time is over", openKeysStay[T]},
		{"EpochsOutliveRows", "epochs rise over purges, and over the restore of a backup", epochsOutliveRows[T]},
	}
}

// leased returns a process with business transactions in the database of the rule.
func (s *suite[T]) leased(o idem.LeaseOptions) *idem.Leased[*idem.RunTx[T]] {
	return idem.NewLeased(idem.New(s.DB, nil), &o)
}

// finishing is a closure that charges at p and books it under name.
func finishing[T any](s *suite[T], p *provider, name string, then func(ctx context.Context, t T) error) func(context.Context, *idem.RunTx[T]) (string, error) {
	return func(ctx context.Context, run *idem.RunTx[T]) (string, error) {
		paid, err := idem.Step(ctx, run, p.step(fine))
		if err != nil {
			return "", err
		}
		return idem.Finish(ctx, run, func(ctx context.Context, t T) (string, error) {
			return paid, errors.Join(s.apply(ctx, t, name), then(ctx, t))
		})
	}
}

func nothing[T any](context.Context, T) error { return nil }

func (s *suite[T]) wantCharged(p *provider, want int) {
	s.Helper()
	if charges, keys := p.charges(); charges != want || keys > 1 {
		s.Fatalf("%d charges of %d keys, want %d of one", charges, keys, want)
	}
}

func finishes[T any](s *suite[T]) {
	p, heard := &provider{}, &events{}
	for i := range 3 {
		res, err := idem.DoLeased(s.ctx, s.leased(idem.LeaseOptions{Observer: heard}), key("booked"), finishing(s, p, "booked", nothing[T]))
		if err != nil || res.Replayed != (i > 0) || res.Value != "charged" || string(res.Body) != `"charged"` {
			s.Fatalf("got %+v, %v", res, err)
		}
	}
	if got := heard.kinds(s, ""); got != "idem.claimed idem.step_started idem.step_saved idem.completed idem.replayed idem.replayed " {
		s.Fatalf("heard %q", got)
	}
	s.wantEffects("booked", 1)
	s.wantCharged(p, 1)
	// What the closure makes of it does not matter: the answer is there.
	_, err := idem.DoLeased(s.ctx, s.leased(idem.LeaseOptions{}), key("then an error"), func(ctx context.Context, run *idem.RunTx[T]) (int, error) {
		_, err := idem.Finish(ctx, run, func(ctx context.Context, t T) (int, error) { return 7, s.apply(ctx, t, "then an error") })
		s.must(err)
		if _, err = idem.Finish(ctx, run, func(context.Context, T) (int, error) { return 8, nil }); !errors.Is(err, idem.ErrStep) {
			s.Errorf("a second Finish: %v", err)
		}
		_, err = idem.Step(ctx, run, idem.External[int]{Name: "late", Call: func(context.Context, string) (int, error) { return 0, nil }})
		if !errors.Is(err, idem.ErrStep) {
			s.Errorf("a step after Finish: %v", err)
		}
		return 9, errPlain
	})
	if s.want(err, errPlain); holdfast.OutcomeOf(err) != holdfast.Applied {
		s.Fatalf("outcome %v", holdfast.OutcomeOf(err))
	}
	res, err := idem.DoLeased(s.ctx, s.leased(idem.LeaseOptions{}), key("then an error"), func(context.Context, *idem.RunTx[T]) (int, error) { return 0, nil })
	if err != nil || !res.Replayed || res.Value != 7 {
		s.Fatalf("got %+v, %v", res, err)
	}
	s.wantEffects("then an error", 1)
}

func finishFails[T any](s *suite[T]) {
	p, keys := &provider{}, s.leased(patient)
	_, err := idem.DoLeased(s.ctx, keys, key("fails"), finishing(s, p, "fails", func(context.Context, T) error { return errPlain }))
	if s.want(err, errPlain); holdfast.OutcomeOf(err) != holdfast.Unknown { // of the whole: the charge stays
		s.Fatalf("outcome %v", holdfast.OutcomeOf(err))
	}
	s.wantEffects("fails", 0)
	for ok := false; !ok; {
		res, err := idem.DoLeased(s.ctx, keys, key("fails"), finishing(s, p, "fails", nothing[T]))
		if ok = err == nil && res.Value == "charged"; !ok && !errors.Is(err, idem.ErrInFlight) {
			s.Fatalf("got %+v, %v", res, err)
		}
	}
	s.wantEffects("fails", 1)
	s.wantCharged(p, 1)
	for name, end := range map[string]func(){"panic": func() { panic(errPlain) }} {
		q := &provider{}
		func() {
			defer func() { _ = recover() }()
			_, _ = idem.DoLeased(s.ctx, keys, key(name), finishing(s, q, name, func(context.Context, T) error { end(); return nil }))
		}()
		s.wantEffects(name, 0)
		list, err := keys.List(s.ctx, idem.Filter{ID: key(name).ID()})
		if err != nil || len(list) != 1 || list[0].State != idem.Pending {
			s.Fatalf("listed %+v, %v", list, err)
		}
	}
}

func finishFailure[T any](s *suite[T]) {
	for i := range 2 {
		_, err := idem.DoLeased(s.ctx, s.leased(idem.LeaseOptions{}), key("declined"), func(ctx context.Context, run *idem.RunTx[T]) (string, error) {
			return idem.Finish(ctx, run, func(ctx context.Context, t T) (string, error) {
				return "", errors.Join(s.apply(ctx, t, "declined"), &idem.Failure{Status: 402, Message: "declined"})
			})
		})
		var f *idem.Failure
		if !errors.As(err, &f) || f.Status != 402 || holdfast.OutcomeOf(err) != holdfast.NotApplied {
			s.Fatalf("call %d: got %v", i+1, err)
		}
	}
	s.wantEffects("declined", 0)
}

// B2.
func zombie[T any](s *suite[T]) {
	p, q := &provider{}, &provider{}
	keys := s.leased(patient)
	_, err := idem.DoLeased(s.ctx, s.leased(idem.LeaseOptions{}), key("zombie"), func(ctx context.Context, run *idem.RunTx[T]) (string, error) {
		if _, err := idem.Step(ctx, run, p.step(fine)); err != nil {
			return "", err
		}
		s.expire(key("zombie"))
		res, err := idem.DoLeased(s.ctx, keys, key("zombie"), finishing(s, q, "zombie", nothing[T]))
		if err != nil || res.Value != "charged" {
			s.Errorf("the second got %+v, %v", res, err)
		}
		return idem.Finish(ctx, run, func(ctx context.Context, t T) (string, error) {
			s.Error("a zombie wrote")
			return "a", s.apply(ctx, t, "zombie")
		})
	})
	s.want(err, idem.ErrLeaseLost)
	s.wantEffects("zombie", 1)
	s.wantCharged(q, 0) // what the first had recorded
	res, err := idem.DoLeased(s.ctx, keys, key("zombie"), finishing(s, q, "zombie", nothing[T]))
	if err != nil || !res.Replayed || res.Value != "charged" {
		s.Fatalf("got %+v, %v", res, err)
	}
}

// expire lets the lease of a key run out now, as far as the store knows.
func (s *suite[T]) expire(k idem.Key) {
	s.Helper()
	now := "clock_timestamp()"
	if s.DB.Dialect() == tx.SQLite {
		now = s.DB.Dialect().Now
	}
	id := k.ID()
	s.exec("update idem_key set lease_until = "+now+" where k = $1", id[:])
}

func guards[T any](s *suite[T]) {
	_, err := idem.DoLeased(s.ctx, s.leased(idem.LeaseOptions{}), key("guarded"), func(_ context.Context, run *idem.RunTx[T]) (string, error) {
		f := s.begin()
		if err := run.Guard(s.ctx, f.Tx); err != nil {
			s.Error(err)
		}
		if s.DB.Dialect().Capabilities.RowLocks {
			// Its lease runs out, and nobody takes it.
			_, err := idem.DoLeased(s.ctx, s.leased(idem.LeaseOptions{Wait: 50 * time.Millisecond}), key("guarded"), func(context.Context, *idem.RunTx[T]) (string, error) {
				s.Error("a guarded key was taken")
				return "", nil
			})
			s.want(err, idem.ErrInFlight)
		}
		s.must(f.Rollback(s.ctx))
		s.expire(key("guarded"))
		res, err := idem.DoLeased(s.ctx, s.leased(patient), key("guarded"), func(context.Context, *idem.RunTx[T]) (string, error) { return "b", nil })
		if err != nil || res.Value != "b" {
			s.Errorf("the second got %+v, %v", res, err)
		}
		f = s.begin()
		err = run.Guard(s.ctx, f.Tx)
		s.must(f.Rollback(s.ctx))
		if !errors.Is(err, idem.ErrLeaseLost) {
			s.Errorf("the guard of a zombie: %v", err)
		}
		return "a", nil
	})
	s.want(err, idem.ErrLeaseLost)
}

func finishLong[T any](s *suite[T]) {
	levels := []tx.Isolation{tx.ReadCommitted}
	if s.DB.Dialect().Capabilities.IsolationLevels {
		levels = append(levels, tx.RepeatableRead, tx.Serializable)
	}
	var wg sync.WaitGroup
	for _, level := range levels {
		keys := idem.NewLeased(idem.New(s.DB.With(tx.Options{Isolation: level, Attempts: 1}), nil), &idem.LeaseOptions{Lease: short})
		name := fmt.Sprint("long ", level)
		wg.Go(func() {
			res, err := idem.DoLeased(s.ctx, keys, key(name), func(ctx context.Context, run *idem.RunTx[T]) (string, error) {
				return idem.Finish(ctx, run, func(ctx context.Context, t T) (string, error) {
					if err := s.apply(ctx, t, name); err != nil {
						return "", err
					}
					time.Sleep(3 * short / 2) // what it does takes that long
					return "done", context.Cause(ctx)
				})
			})
			if err != nil || res.Value != "done" {
				s.Errorf("%v: got %+v, %v", level, res, err)
			}
		})
	}
	wg.Wait()
	for _, level := range levels {
		s.wantEffects(fmt.Sprint("long ", level), 1)
	}
}

func noTransaction[T any](s *suite[T]) {
	keys, called := s.leased(idem.LeaseOptions{}), &counter{}
	step := idem.External[int]{Name: "charge", Call: func(context.Context, string) (int, error) {
		called.add()
		return 0, nil
	}}
	_ = s.DB.Do(s.ctx, func(ctx context.Context, _ T) error {
		_, err := idem.DoLeased(ctx, keys, key("around"), func(context.Context, *idem.RunTx[T]) (int, error) {
			called.add()
			return 0, nil
		})
		if !errors.Is(err, idem.ErrInTransaction) || holdfast.OutcomeOf(err) != holdfast.NotApplied {
			s.Errorf("around the work: %v", err)
		}
		return nil
	})
	_, err := idem.DoLeased(s.ctx, keys, key("inside"), func(ctx context.Context, run *idem.RunTx[T]) (int, error) {
		return idem.Finish(ctx, run, func(ctx context.Context, _ T) (int, error) {
			if _, err := idem.Step(ctx, run, step); !errors.Is(err, idem.ErrInTransaction) {
				s.Errorf("a step in Finish: %v", err)
			}
			if _, err := idem.Finish(ctx, run, func(context.Context, T) (int, error) { return 0, nil }); !errors.Is(err, idem.ErrInTransaction) {
				s.Errorf("a Finish in Finish: %v", err)
			}
			return 1, nil
		})
	})
	s.must(err)
	s.count(called, 0)
}

func mixed[T any](s *suite[T]) {
	keys, runs := idem.New(s.DB, nil), &counter{}
	leased := idem.NewLeased(keys, &idem.LeaseOptions{Lease: short})
	leasedRun := func(context.Context, *idem.RunTx[T]) (string, error) {
		runs.add()
		return "leased", nil
	}
	if s.DB.Dialect().Capabilities.ConcurrentWriters {
		_, err := idem.Do(s.ctx, keys, key("mixed"), func(ctx context.Context, t T) (string, error) {
			_, err := idem.DoLeased(context.Background(), leased, key("mixed"), leasedRun) //nolint:contextcheck // of another caller
			s.want(err, idem.ErrInFlight)
			return "one commit", s.apply(ctx, t, "mixed")
		})
		s.must(err)
	} else {
		_, err := idem.Do(s.ctx, keys, key("mixed"), work(s, "mixed", &counter{}, "one commit"))
		s.must(err)
	}
	res, err := idem.DoLeased(s.ctx, leased, key("mixed"), leasedRun)
	if err != nil || !res.Replayed || res.Value != "one commit" {
		s.Fatalf("got %+v, %v", res, err)
	}
	s.count(runs, 0)
	mine, other := key("leased first"), key("leased first")
	mine.Fingerprint, other.Fingerprint = idem.FingerprintOf("mine"), idem.FingerprintOf("other")
	_, err = idem.DoLeased(s.ctx, leased, mine, func(context.Context, *idem.RunTx[T]) (string, error) {
		for k, want := range map[idem.Key]error{mine: idem.ErrInFlight, other: idem.ErrMismatch} {
			_, err := idem.Do(s.ctx, keys, k, work(s, "leased first", runs, "no"))
			s.want(err, want)
			f := s.begin()
			_, err = idem.DoTx(s.ctx, keys, f.Tx, k, work(s, "leased first", runs, "no"))
			s.want(err, want)
			s.must(f.Rollback(s.ctx))
		}
		return "leased", nil
	})
	s.must(err)
	again, err := idem.Do(s.ctx, keys, mine, work(s, "leased first", runs, "no"))
	if err != nil || !again.Replayed || again.Value != "leased" {
		s.Fatalf("got %+v, %v", again, err)
	}
	s.count(runs, 0)
	// An unknown key is refused in the other mode, and a lease that is over is not taken.
	_, err = idem.DoLeased(s.ctx, s.leased(patient), key("unknown"), func(ctx context.Context, run *idem.RunTx[T]) (string, error) {
		return idem.Step(ctx, run, (&provider{}).step(func() error { return errPlain }))
	})
	s.want(err, idem.ErrOutcomeUnknown)
	_, err = idem.Do(s.ctx, keys, key("unknown"), work(s, "unknown", runs, "no"))
	if s.want(err, idem.ErrOutcomeUnknown); holdfast.OutcomeOf(err) != holdfast.Unknown {
		s.Fatalf("outcome %v", holdfast.OutcomeOf(err))
	}
	s.count(runs, 0)
}

func mixedStorm[T any](s *suite[T]) {
	for round := range 5 {
		name := fmt.Sprint("mixed storm ", round)
		var wg sync.WaitGroup
		for i := range 6 {
			keys := idem.New(s.DB, &idem.Options{Wait: time.Minute})
			if i%2 == 0 {
				wg.Go(func() {
					res, err := idem.Do(s.ctx, keys, key(name), work(s, name, &counter{}, "one"))
					if err != nil || res.Value != "one" {
						s.Errorf("got %+v, %v", res, err)
					}
				})
				continue
			}
			wg.Go(func() {
				res, err := idem.DoLeased(s.ctx, idem.NewLeased(keys, nil), key(name), func(ctx context.Context, run *idem.RunTx[T]) (string, error) {
					return idem.Finish(ctx, run, func(ctx context.Context, t T) (string, error) { return "one", s.apply(ctx, t, name) })
				})
				if err != nil || res.Value != "one" {
					s.Errorf("leased: got %+v, %v", res, err)
				}
			})
		}
		wg.Wait()
		s.wantEffects(name, 1)
	}
}

// B41.
func openKeysStay[T any](s *suite[T]) {
	keys := idem.New(s.DB, &idem.Options{TTL: time.Millisecond, Tombstone: -1})
	leased := idem.NewLeased(keys, &idem.LeaseOptions{TTL: time.Millisecond, RetryAfter: time.Millisecond, LongestRetry: time.Millisecond})
	stays := func(state idem.State) {
		k := key(state.String())
		s.expire(k)
		_, err := keys.Sweep(s.ctx)
		s.must(err)
		n, err := keys.Erase(s.ctx, "tenant")
		s.must(err)
		_, deleted := keys.Delete(s.ctx, k)
		_, released := keys.Release(s.ctx, k)
		if n != 0 || !errors.Is(deleted, idem.ErrInFlight) || !errors.Is(released, idem.ErrInFlight) {
			s.Errorf("%v: erased %d, deleted: %v, released: %v", state, n, deleted, released)
		}
		list, err := leased.List(s.ctx, idem.Filter{ID: k.ID()})
		if err != nil || len(list) != 1 || list[0].State != state {
			s.Errorf("%v: listed %+v, %v", state, list, err)
		}
	}
	_, err := idem.DoLeased(s.ctx, leased, key("running"), func(context.Context, *idem.RunTx[T]) (string, error) {
		stays(idem.Running)
		return "", errPlain
	})
	s.want(err, errPlain)
	for state, fail := range map[idem.State]func() error{idem.Unknown: func() error { return errPlain }, idem.Pending: fine} {
		_, err := idem.DoLeased(s.ctx, leased, key(state.String()), func(ctx context.Context, run *idem.RunTx[T]) (string, error) {
			_, err := idem.Step(ctx, run, (&provider{}).step(fail))
			return "", errors.Join(err, errPlain)
		})
		s.want(err, errPlain)
		stays(state)
	}
}

// B46.
func epochsOutliveRows[T any](s *suite[T]) {
	keys := idem.New(s.DB, nil)
	leased := idem.NewLeased(keys, nil)
	var last int64
	again := func(when string) {
		_, err := idem.DoLeased(s.ctx, leased, key("rising"), func(_ context.Context, run *idem.RunTx[T]) (string, error) {
			if run.Epoch() <= last {
				s.Errorf("%s: epoch %d after %d", when, run.Epoch(), last)
			}
			last = run.Epoch()
			return "", nil
		})
		s.must(err)
	}
	for range 5 {
		again("purged")
		deleted, err := keys.Delete(s.ctx, key("rising"))
		if err != nil || !deleted {
			s.Fatalf("deleted %v, %v", deleted, err)
		}
	}
	// A backup knows an earlier number.
	if s.DB.Dialect() == tx.SQLite {
		s.exec("update idem_key_epoch set epoch = 1")
	} else {
		s.exec("select setval('idem_key_epoch', 1)")
	}
	again("restored")
	_, err := keys.Delete(s.ctx, key("rising"))
	s.must(err)
	// The clock steps back, so that what the last row had is ahead of it.
	last += int64(time.Hour / time.Microsecond)
	if s.DB.Dialect() == tx.SQLite {
		s.exec("update idem_key_epoch set epoch = $1", last)
	} else {
		s.exec("select setval('idem_key_epoch', $1::bigint)", last)
	}
	again("after a step back")
}
