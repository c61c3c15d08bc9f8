package idemtest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/tx"
)

func failureRules[T any]() []rule[T] {
	return []rule[T]{
		{"PlainErrorReleases", "a plain error undoes everything and frees the key", plainError[T]},
		{"Statuses", "a failure is an answer unless its status asks for another attempt", statuses[T]},
		{"Denied", "a final denial is not run again; the corrected request is a mismatch under its key, and works under a new one", denied[T]},
		{"FailureUndone", "a stored failure undoes the writes, deferred statements and hooks of the closure", failureUndone[T]},
		{"FailureKept", "KeepFailedWrites commits them with the failure", failureKept[T]},
		{"FailureAfterStatementError", "a failure returned after a failed statement is stored", failureAfterError[T]},
		{"SwallowedStatementError", "a statement error that the closure drops is never reported as success on an engine that aborts", swallowed[T]},
		{"Panic", "a panic frees the key and goes on up", panics[T]},
		{"Goexit", "runtime.Goexit frees the key", goexit[T]},
		{"Overtaken", "an answer that another execution stored meanwhile wins, and the work is rolled back", overtaken[T]},
		{"OvertakenAndGone", "if that answer has gone again, or there is only its tombstone, the key has expired, and nothing is done", overtakenAndGone[T]},
		{"OvertakenInReuse", "so it is when both did new work under an expired key: the late answer does not overwrite the other", overtakenInReuse[T]},
	}
}

var errPlain = errors.New("plain")

func failing[T any](s *suite[T], name string, runs *counter, err error) func(context.Context, T) (int, error) {
	return func(ctx context.Context, t T) (int, error) {
		runs.add()
		if applyErr := s.apply(ctx, t, name); applyErr != nil {
			return 0, applyErr
		}
		return 0, err
	}
}

func plainError[T any](s *suite[T]) {
	keys, runs := idem.New(s.DB, nil), &counter{}
	for range 2 {
		_, err := idem.Do(s.ctx, keys, key("plain"), failing(s, "plain", runs, errPlain))
		s.want(err, errPlain)
		if holdfast.OutcomeOf(err) != holdfast.NotApplied {
			s.Fatalf("outcome %v", holdfast.OutcomeOf(err))
		}
	}
	s.wantEffects("plain", 0)
	res, err := idem.Do(s.ctx, keys, key("plain"), work(s, "plain", runs, 5))
	s.must(err)
	if res.Replayed {
		s.Fatal("an error was replayed as an answer")
	}
	s.count(runs, 3)
}

// statuses covers both complaints: a transient 500 that is replayed for a day, and a denial that is run again.
func statuses[T any](s *suite[T]) {
	keys := idem.New(s.DB, nil)
	for status, stored := range map[int]bool{
		0: true, 303: true, 400: true, 402: true, 403: true, 404: true, 410: true, 422: true, 451: true,
		408: false, 409: false, 421: false, 423: false, 425: false, 429: false, 500: false, 502: false, 503: false, 504: false,
	} {
		name, runs := fmt.Sprintf("status %d", status), &counter{}
		failure := &idem.Failure{Status: status, Message: "no", Body: []byte("\x00body")}
		for range 2 {
			_, err := idem.Do(s.ctx, keys, key(name), failing(s, name, runs, fmt.Errorf("wrapped: %w", failure)))
			var got *idem.Failure
			if !errors.As(err, &got) || got.Status != status || got.Message != "no" || string(got.Body) != "\x00body" || !errors.Is(err, idem.ErrFailed) {
				s.Fatalf("%s: got %#v", name, err)
			}
			if holdfast.OutcomeOf(err) != holdfast.NotApplied {
				s.Fatalf("%s: outcome %v", name, holdfast.OutcomeOf(err))
			}
		}
		want := 2
		if stored {
			want = 1
		}
		s.count(runs, want)
		s.wantEffects(name, 0)
	}
	_, err := idem.Do(s.ctx, keys, key("terminal"), failing(s, "terminal", &counter{}, idem.Terminal(errPlain)))
	s.want(err, errPlain)
	_, err = idem.Do(s.ctx, keys, key("terminal"), failing(s, "terminal", &counter{}, nil))
	s.want(err, idem.ErrFailed)
	if err.Error() != errPlain.Error() {
		s.Fatalf("replayed %q", err)
	}
}

func denied[T any](s *suite[T]) {
	keys, runs := idem.New(s.DB, nil), &counter{}
	wrong, corrected := key("form"), key("form")
	wrong.Fingerprint, corrected.Fingerprint = idem.FingerprintOf("-5"), idem.FingerprintOf("5")
	for _, k := range []*idem.Keys[T]{keys, keys, idem.New(s.DB, nil)} {
		_, err := idem.Do(s.ctx, k, wrong, failing(s, "form", runs, &idem.Failure{Status: 422}))
		s.want(err, idem.ErrFailed)
	}
	s.count(runs, 1)
	for _, k := range []*idem.Keys[T]{keys, idem.New(s.DB, nil)} {
		_, err := idem.Do(s.ctx, k, corrected, work(s, "form", runs, 5))
		s.want(err, idem.ErrMismatch)
	}
	corrected.Value = "corrected form"
	res, err := idem.Do(s.ctx, keys, corrected, work(s, "form", runs, 5))
	s.must(err)
	if res.Replayed {
		s.Fatal("a new key was answered with an old denial")
	}
	s.count(runs, 2)
	s.wantEffects("form", 1)
}

func failureUndone[T any](s *suite[T]) {
	keys, hooks := idem.New(s.DB, nil), &counter{}
	_, err := idem.Do(s.ctx, keys, key("undone"), func(ctx context.Context, t T) (int, error) {
		s.must(s.apply(ctx, t, "undone"))
		s.must(s.DB.Defer(ctx, t, &tx.Stmt{SQL: "insert into effect (name) values ($1)", Args: []any{"undone"}}))
		s.must(tx.AfterCommit(ctx, func(context.Context) { hooks.add() }))
		return 0, &idem.Failure{Status: 402}
	})
	s.want(err, idem.ErrFailed)
	s.wantEffects("undone", 0)
	s.count(hooks, 0)
	f := s.begin()
	s.must(s.apply(s.ctx, f.Tx, "mine"))
	_, err = idem.DoTx(s.ctx, keys, f.Tx, key("undone in a foreign one"), failing(s, "undone", &counter{}, &idem.Failure{Status: 402}))
	s.want(err, idem.ErrFailed)
	s.must(f.Commit(s.ctx))
	s.wantEffects("mine", 1)
	s.wantEffects("undone", 0)
	_, err = idem.Do(s.ctx, keys, key("undone in a foreign one"), failing(s, "undone", &counter{}, nil))
	s.want(err, idem.ErrFailed)
}

func failureKept[T any](s *suite[T]) {
	keys, runs := idem.New(s.DB, &idem.Options{KeepFailedWrites: true}), &counter{}
	for range 2 {
		_, err := idem.Do(s.ctx, keys, key("kept"), failing(s, "kept", runs, &idem.Failure{Status: 402}))
		if s.want(err, idem.ErrFailed); holdfast.OutcomeOf(err) != holdfast.Applied {
			s.Fatalf("the outcome is %v", holdfast.OutcomeOf(err))
		}
	}
	s.count(runs, 1)
	s.wantEffects("kept", 1)
	f := s.begin()
	_, err := idem.DoTx(s.ctx, keys, f.Tx, key("kept too"), failing(s, "kept", runs, &idem.Failure{Status: 402}))
	s.want(err, idem.ErrFailed)
	s.must(f.Commit(s.ctx))
	s.wantEffects("kept", 2)
}

func failureAfterError[T any](s *suite[T]) {
	s.exec("create table email (address text not null unique)")
	s.exec("insert into email (address) values ('a@b.c')")
	keys, runs := idem.New(s.DB, nil), &counter{}
	for range 2 {
		_, err := idem.Do(s.ctx, keys, key("taken"), func(ctx context.Context, t T) (int, error) {
			runs.add()
			_, err := s.DB.Tx(t).Exec(ctx, "insert into email (address) values ('a@b.c')")
			if _, taken := tx.UniqueViolation(err); taken {
				return 0, &idem.Failure{Status: 422, Message: "the address is taken"}
			}
			return 0, err
		})
		s.want(err, idem.ErrFailed)
	}
	s.count(runs, 1)
}

func swallowed[T any](s *suite[T]) {
	if !s.DB.Dialect().Capabilities.AbortsOnError {
		s.Log("the engine goes on after an error; nothing to report")
		return
	}
	keys := idem.New(s.DB, nil)
	_, err := idem.Do(s.ctx, keys, key("swallowed"), func(ctx context.Context, t T) (int, error) {
		_, _ = s.DB.Tx(t).Exec(ctx, "select 1/0")
		return 1, nil
	})
	s.want(err, tx.ErrTxAborted)
	res, err := idem.Do(s.ctx, keys, key("swallowed"), work(s, "swallowed", &counter{}, 1))
	s.must(err)
	if res.Replayed {
		s.Fatal("the aborted execution left an answer")
	}
}

func panics[T any](s *suite[T]) {
	keys, runs := idem.New(s.DB, nil), &counter{}
	func() {
		defer func() {
			if got := recover(); got != "boom" {
				s.Fatalf("recovered %v", got)
			}
		}()
		_, _ = idem.Do(s.ctx, keys, key("panic"), func(ctx context.Context, t T) (int, error) {
			s.must(s.apply(ctx, t, "panic"))
			panic("boom")
		})
	}()
	s.wantEffects("panic", 0)
	_, err := idem.Do(s.ctx, keys, key("panic"), work(s, "panic", runs, 1))
	s.must(err)
	s.count(runs, 1)
}

func goexit[T any](s *suite[T]) {
	keys, runs := idem.New(s.DB, nil), &counter{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = idem.Do(s.ctx, keys, key("goexit"), func(ctx context.Context, t T) (int, error) {
			if err := s.apply(ctx, t, "goexit"); err != nil {
				return 0, err
			}
			runtime.Goexit()
			return 0, nil
		})
		s.Error("Goexit was swallowed")
	}()
	<-done
	s.wantEffects("goexit", 0)
	_, err := idem.Do(s.ctx, keys, key("goexit"), work(s, "goexit", runs, 1))
	s.must(err)
	s.count(runs, 1)
}

// overtaken plays an execution that the lock did not stop, such as one of another version with another lock.
func overtaken[T any](s *suite[T]) {
	if !s.DB.Dialect().Capabilities.ConcurrentWriters {
		s.Log("one writer at a time: nobody can store an answer meanwhile")
		return
	}
	s.must(idem.Migrate(s.ctx, s.DB, idem.Names{Keys: "other"}))
	other := idem.New(s.DB, &idem.Options{Table: "other"})
	_, err := idem.Do(s.ctx, other, key("overtaken"), work(s, "other", &counter{}, 9))
	s.must(err)
	keys, runs := idem.New(s.DB, nil), &counter{}
	res, err := idem.Do(s.ctx, keys, key("overtaken"), func(ctx context.Context, t T) (int, error) {
		runs.add()
		s.exec("insert into idem_key select * from other")
		return 1, s.apply(ctx, t, "overtaken")
	})
	s.must(err)
	if res.Value != 9 || !res.Replayed {
		s.Fatalf("got %+v", res)
	}
	s.count(runs, 1)
	s.wantEffects("overtaken", 0)
	// That of a call inside says nothing of the key around it.
	_, err = idem.Do(s.ctx, other, key("inner"), work(s, "other", &counter{}, 9))
	s.must(err)
	_, err = idem.Do(s.ctx, keys, key("around"), func(ctx context.Context, _ T) (int, error) {
		runs.add()
		_, err := idem.Do(ctx, keys, key("inner"), func(context.Context, T) (int, error) {
			s.exec("insert into idem_key select * from other on conflict do nothing")
			return 1, nil
		})
		return 1, err
	})
	if err == nil || errors.Is(err, idem.ErrKeyExpired) {
		s.Fatalf("got %v", err)
	}
	s.outcome(err, holdfast.NotApplied)
	s.count(runs, 2)
}

func overtakenAndGone[T any](s *suite[T]) {
	if !s.DB.Dialect().Capabilities.ConcurrentWriters {
		s.Log("one writer at a time: nobody can store an answer meanwhile")
		return
	}
	s.must(idem.Migrate(s.ctx, s.DB, idem.Names{Keys: "other"}))
	for what, end := range map[string]string{
		"gone":    "delete from idem_key",
		"expired": "update idem_key set expires_at = created_at",
		"buried":  "update idem_key set state = 4, body = null, expires_at = created_at",
	} {
		claims := 0
		db := s.between(func() {
			if claims++; claims == 2 { // the first could not store its answer
				s.exec(end)
			}
		})
		_, err := idem.Do(s.ctx, idem.New(s.DB, &idem.Options{Table: "other"}), key(what), work(s, "other", &counter{}, 9))
		s.must(err)
		runs := &counter{}
		_, err = idem.Do(s.ctx, idem.New(db, nil), key(what), func(ctx context.Context, t T) (int, error) {
			runs.add()
			s.exec("insert into idem_key select * from other")
			return 1, s.apply(ctx, t, what)
		})
		s.want(err, idem.ErrKeyExpired)
		s.count(runs, 1)
		s.wantEffects(what, 0)
		s.exec("delete from idem_key")
		s.exec("delete from other")
	}
}

func overtakenInReuse[T any](s *suite[T]) {
	if !s.DB.Dialect().Capabilities.ConcurrentWriters {
		s.Log("one writer at a time: nobody can store an answer meanwhile")
		return
	}
	s.must(idem.Migrate(s.ctx, s.DB, idem.Names{Keys: "other"}))
	for _, level := range s.levels() {
		name, runs := fmt.Sprint("overtaken in reuse ", level), &counter{}
		_, err := idem.Do(s.ctx, idem.New(s.DB, &idem.Options{Table: "other"}), key(name), work(s, "other", &counter{}, 9))
		s.must(err)
		_, err = idem.Do(s.ctx, idem.New(s.DB, nil), key(name), work(s, "old", &counter{}, 1))
		s.must(err)
		s.exec("update idem_key set expires_at = created_at where k in (select k from other)")
		keys := idem.New(s.DB.With(tx.Options{Isolation: level}), &idem.Options{AllowReuse: true, Wait: time.Minute})
		res, err := idem.Do(s.ctx, keys, key(name), func(ctx context.Context, t T) (int, error) {
			runs.add()
			s.exec("update idem_key set nonce = o.nonce, body = o.body, expires_at = o.expires_at from other o where o.k = idem_key.k")
			return 2, s.apply(ctx, t, name)
		})
		s.must(err)
		if res.Value != 9 || !res.Replayed {
			s.Fatalf("%s: got %+v", name, res)
		}
		s.exec("update idem_key set expires_at = created_at where k in (select k from other)")
		keys = idem.New(s.DB.With(tx.Options{Isolation: level}), &idem.Options{AllowReuse: true})
		_, err = idem.Do(s.ctx, keys, key(name), func(ctx context.Context, t T) (int, error) {
			runs.add()
			s.exec("update idem_key set state = 1, nonce = o.nonce + 1, expires_at = o.expires_at from other o where o.k = idem_key.k")
			return 2, s.apply(ctx, t, name)
		})
		s.want(err, idem.ErrInFlight) // the other is still at it
		s.count(runs, 2)
		s.exec("update idem_key set state = 2, expires_at = created_at where k in (select k from other)")
		_, err = idem.Do(s.ctx, keys, key(name), func(ctx context.Context, t T) (int, error) {
			runs.add()
			s.exec("update idem_key set nonce = nonce + 1 where k in (select k from other)") // the other's has expired, too
			return 2, s.apply(ctx, t, name)
		})
		switch {
		case err == nil:
			s.Fatalf("%s: the answer of another was overwritten", name)
		case level <= tx.ReadCommitted: // above, it is a conflict each time
			s.want(err, idem.ErrKeyExpired)
		}
		s.wantEffects(name, 0)
		s.exec("delete from other")
	}
}
