package idemtest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/idem"
)

func cacheRules[T any]() []rule[T] {
	return []rule[T]{
		{"Cached", "with a cache, a repetition is answered by this process alone", cachedAnswers[T]},
		{"CachedMismatch", "another fingerprint is judged by the database", cachedMismatch[T]},
		{"CachedCopies", "what a caller does to an answer reaches nobody else", cachedCopies[T]},
		{"CachedUntil", "the cache forgets what is deleted, released, erased or too old, and keeps nothing uncommitted", cachedUntil[T]},
		{"CachedStorm", "a call that begins after a deletion never gets the answer from before it", cachedStorm[T]},
	}
}

func cachedAnswers[T any](s *suite[T]) {
	heard := &events{}
	keys, runs := idem.New(s.DB, &idem.Options{CacheBytes: 1 << 20, Observer: heard}), &counter{}
	_, err := idem.Do(s.ctx, keys, key("cached"), work(s, "cached", runs, 7))
	s.must(err)
	_, err = idem.Do(s.ctx, keys, key("cached failure"), declined[T])
	s.want(err, idem.ErrFailed)
	_, err = idem.Do(s.ctx, idem.New(s.DB, nil), key("elsewhere"), work(s, "cached", runs, 8))
	s.must(err)
	_, err = idem.Do(s.ctx, keys, key("elsewhere"), work(s, "cached", runs, 8))
	s.must(err)
	heard.kinds(s, "")
	s.exec("drop table idem_key") // nobody else can answer
	for name, want := range map[string]int{"cached": 7, "elsewhere": 8} {
		res, err := idem.Do(s.ctx, keys, key(name), work(s, "cached", runs, 9))
		if err != nil || res.Value != want || !res.Replayed {
			s.Fatalf("%s: got %+v, %v", name, res, err)
		}
	}
	_, err = idem.Do(s.ctx, keys, key("cached failure"), work(s, "cached", runs, 9))
	var failure *idem.Failure
	if !errors.As(err, &failure) || failure.Status != 402 {
		s.Fatalf("got %v", err)
	}
	if got := heard.kinds(s, ""); got != "idem.replayed idem.replayed idem.replayed " {
		s.Fatalf("heard %q", got)
	}
	s.count(runs, 2)
}

func cachedMismatch[T any](s *suite[T]) {
	keys, runs := idem.New(s.DB, &idem.Options{CacheBytes: 1 << 20}), &counter{}
	right, wrong := key("fp"), key("fp")
	right.Fingerprint, wrong.Fingerprint = idem.FingerprintOf("12.00"), idem.FingerprintOf("99.00")
	_, err := idem.Do(s.ctx, keys, right, work(s, "fp", runs, 1))
	s.must(err)
	for _, k := range []*idem.Keys[T]{keys, idem.New(s.DB, nil)} {
		_, err = idem.Do(s.ctx, k, wrong, work(s, "fp", runs, 1))
		s.want(err, idem.ErrMismatch)
	}
	s.exec("delete from idem_key") // another process has freed it
	res, err := idem.Do(s.ctx, keys, wrong, work(s, "fp", runs, 2))
	s.must(err)
	if res.Replayed || res.Value != 2 {
		s.Fatalf("got %+v", res)
	}
	_, err = idem.Do(s.ctx, keys, right, work(s, "fp", runs, 1))
	s.want(err, idem.ErrMismatch)
	s.count(runs, 2)
}

func cachedCopies[T any](s *suite[T]) {
	codecs := []idem.Codec{turning{}} // opens in place
	for name, o := range map[string]idem.Options{"plain": {CacheBytes: 1 << 20}, "sealed": {CacheBytes: 1 << 20, Codecs: codecs}} {
		keys, runs := idem.New(s.DB, &o), &counter{}
		mine := []byte("answer")
		for i := range 8 {
			if i == 4 { // another process, which has it from the table
				keys = idem.New(s.DB, &o)
			}
			res, err := idem.Do(s.ctx, keys, key(name), work(s, name, runs, mine))
			s.must(err)
			if string(res.Value) != "answer" || string(res.Body) != "answer" {
				s.Fatalf("%s, call %d: got %q and %q", name, i, res.Value, res.Body)
			}
			clear(res.Value)
			clear(res.Body)
		}
		s.count(runs, 1)
	}
}

func cachedUntil[T any](s *suite[T]) {
	for name, forget := range map[string]func(keys *idem.Keys[T], k idem.Key) error{
		"deleted": func(keys *idem.Keys[T], k idem.Key) error { _, err := keys.Delete(s.ctx, k); return err },
		"erased":  func(keys *idem.Keys[T], k idem.Key) error { _, err := keys.Erase(s.ctx, k.Scope); return err },
		"too old": func(_ *idem.Keys[T], _ idem.Key) error { s.exec("delete from idem_key"); return nil },
		"failed and released": func(keys *idem.Keys[T], k idem.Key) error {
			if _, err := keys.Delete(s.ctx, k); err != nil {
				return err
			}
			_, err := idem.Do(s.ctx, keys, k, declined[T])
			s.want(err, idem.ErrFailed)
			_, err = keys.Release(s.ctx, k)
			return err
		},
	} {
		o := idem.Options{CacheBytes: 1 << 20}
		if name == "too old" {
			o.CacheFor = time.Nanosecond
		}
		keys, runs := idem.New(s.DB, &o), &counter{}
		for range 2 {
			_, err := idem.Do(s.ctx, keys, key(name), work(s, name, runs, 1))
			s.must(err)
		}
		s.must(forget(keys, key(name)))
		res, err := idem.Do(s.ctx, keys, key(name), work(s, name, runs, 1))
		s.must(err)
		if res.Replayed {
			s.Fatalf("%s: replayed", name)
		}
		s.count(runs, 2)
	}
	keys, runs := idem.New(s.DB, &idem.Options{CacheBytes: 1 << 20}), &counter{}
	f := s.begin()
	for range 2 {
		_, err := idem.DoTx(s.ctx, keys, f.Tx, key("uncommitted"), work(s, "uncommitted", runs, 1))
		s.must(err)
	}
	s.must(f.Rollback(s.ctx))
	res, err := idem.Do(s.ctx, keys, key("uncommitted"), work(s, "uncommitted", runs, 1))
	s.must(err)
	if res.Replayed {
		s.Fatal("an answer that was rolled back was replayed")
	}
	s.wantEffects("uncommitted", 1)
}

func cachedStorm[T any](s *suite[T]) {
	keys, runs := idem.New(s.DB, &idem.Options{CacheBytes: 1 << 20, Wait: time.Minute}), &counter{}
	do := func() int {
		res, err := idem.Do(s.ctx, keys, key("storm"), func(ctx context.Context, t T) (int, error) {
			runs.add()
			return runs.get(), s.apply(ctx, t, "storm")
		})
		if err != nil {
			s.Error(err)
		}
		return res.Value
	}
	var wg sync.WaitGroup
	over := make(chan struct{})
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
					do()
				}
			}
		})
	}
	for range 25 {
		before := do()
		_, err := keys.Delete(s.ctx, key("storm"))
		if after := do(); err != nil || after <= before {
			s.Errorf("got answer %d after %d was deleted, %v", after, before, err)
			break
		}
	}
	close(over)
	wg.Wait()
}
