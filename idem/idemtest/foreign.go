package idemtest

import (
	"context"
	"errors"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/tx"
)

func foreignRules[T any]() []rule[T] {
	return []rule[T]{
		{"ForeignCommit", "the answer appears with the caller's commit, and not before", foreignCommit[T]},
		{"ForeignRollback", "a rollback of the caller frees the key", foreignRollback[T]},
		{"ForeignError", "after an error of the closure the caller's earlier writes stay and the key is free", foreignError[T]},
		{"ForeignPanic", "so it is after a panic that the caller recovers from", foreignPanic[T]},
		{"ForeignNested", "keys nest in one transaction, and each undoes its own writes only", foreignNested[T]},
		{"ForeignReplayTwice", "a replay and a refusal leave no savepoint behind", foreignSavepoints[T]},
		{"AnswerKeepsForeign", "an answer, a failure, a mismatch and an expired key leave the caller's transaction usable, and what it wrote is committed", answerKeepsForeign[T]},
		{"ForeignSnapshot", "where the snapshot is older than the answer, DoTx is a serialization failure and the closure does not run", foreignSnapshot[T]},
		{"InnerFailsToStore", "an inner call whose answer cannot be stored undoes its own writes, no more and no less", innerFailsToStore[T]},
		{"UndoFails", "where what a call wrote could not be undone, the transaction around it does not commit, whatever its closure returns", undoFails[T]},
		{"Joins", "Do inside a closure of the same DB joins its transaction", joins[T]},
	}
}

func foreignCommit[T any](s *suite[T]) {
	keys, runs := idem.New(s.DB, nil), &counter{}
	f := s.begin()
	res, err := idem.DoTx(s.ctx, keys, f.Tx, key("fc"), work(s, "fc", runs, 3))
	s.must(err)
	if res.Replayed || res.Value != 3 {
		s.Fatalf("got %+v", res)
	}
	res, err = idem.DoTx(s.ctx, keys, f.Tx, key("fc"), work(s, "fc", runs, 4))
	s.must(err)
	if !res.Replayed || res.Value != 3 {
		s.Fatalf("the same transaction got %+v", res)
	}
	s.wantEffects("fc", 0)
	s.must(f.Commit(s.ctx))
	res, err = idem.Do(s.ctx, keys, key("fc"), work(s, "fc", runs, 4))
	s.must(err)
	if !res.Replayed || res.Value != 3 {
		s.Fatalf("got %+v", res)
	}
	s.count(runs, 1)
	s.wantEffects("fc", 1)
}

func foreignRollback[T any](s *suite[T]) {
	keys, runs := idem.New(s.DB, nil), &counter{}
	f := s.begin()
	_, err := idem.DoTx(s.ctx, keys, f.Tx, key("fr"), work(s, "fr", runs, 3))
	s.must(err)
	s.must(f.Rollback(s.ctx))
	res, err := idem.Do(s.ctx, keys, key("fr"), work(s, "fr", runs, 4))
	s.must(err)
	if res.Replayed || res.Value != 4 {
		s.Fatalf("got %+v", res)
	}
	s.wantEffects("fr", 1)
}

func foreignError[T any](s *suite[T]) {
	keys, runs := idem.New(s.DB, nil), &counter{}
	f := s.begin()
	s.must(s.apply(s.ctx, f.Tx, "earlier"))
	_, err := idem.DoTx(s.ctx, keys, f.Tx, key("fe"), failing(s, "fe", runs, errPlain))
	s.want(err, errPlain)
	_, err = idem.DoTx(s.ctx, keys, f.Tx, key("fe"), func(ctx context.Context, t T) (int, error) {
		_, err := s.DB.Tx(t).Exec(ctx, "select * from no_such_table")
		return 0, err
	})
	if err == nil {
		s.Fatal("no error")
	}
	s.must(s.apply(s.ctx, f.Tx, "earlier"))
	s.must(f.Commit(s.ctx))
	s.wantEffects("earlier", 2)
	s.wantEffects("fe", 0)
	res, err := idem.Do(s.ctx, keys, key("fe"), work(s, "fe", runs, 4))
	s.must(err)
	if res.Replayed {
		s.Fatal("the failed closure left an answer")
	}
}

func foreignPanic[T any](s *suite[T]) {
	keys := idem.New(s.DB, nil)
	f := s.begin()
	func() {
		defer func() { _ = recover() }()
		_, _ = idem.DoTx(s.ctx, keys, f.Tx, key("fp"), func(ctx context.Context, t T) (int, error) {
			s.must(s.apply(ctx, t, "fp"))
			panic("boom")
		})
	}()
	s.must(s.apply(s.ctx, f.Tx, "earlier"))
	s.must(f.Commit(s.ctx))
	s.wantEffects("fp", 0)
	s.wantEffects("earlier", 1)
	res, err := idem.Do(s.ctx, keys, key("fp"), work(s, "fp", &counter{}, 4))
	s.must(err)
	if res.Replayed {
		s.Fatal("the panic left an answer")
	}
}

func foreignNested[T any](s *suite[T]) {
	keys := idem.New(s.DB, nil)
	f := s.begin()
	res, err := idem.DoTx(s.ctx, keys, f.Tx, key("outer"), func(ctx context.Context, t T) (string, error) {
		s.must(s.apply(ctx, t, "outer"))
		_, err := idem.DoTx(ctx, keys, t, key("inner fails"), failing(s, "inner", &counter{}, errPlain))
		s.want(err, errPlain)
		_, err = idem.DoTx(ctx, keys, t, key("inner declines"), failing(s, "inner", &counter{}, &idem.Failure{Status: 402}))
		s.want(err, idem.ErrFailed)
		_, err = idem.DoTx(ctx, keys, t, key("inner"), work(s, "kept", &counter{}, 1))
		return "done", err
	})
	s.must(err)
	if res.Value != "done" {
		s.Fatalf("got %+v", res)
	}
	_, err = idem.DoTx(s.ctx, keys, f.Tx, key("outer fails"), func(ctx context.Context, t T) (string, error) {
		_, err := idem.DoTx(ctx, keys, t, key("inner of a failed one"), work(s, "gone", &counter{}, 1))
		return "", errors.Join(err, errPlain)
	})
	s.want(err, errPlain)
	s.must(f.Commit(s.ctx))
	s.wantEffects("outer", 1)
	s.wantEffects("inner", 0)
	s.wantEffects("kept", 1)
	s.wantEffects("gone", 0)
	for name, replayed := range map[string]bool{"outer": true, "inner": true, "inner fails": false, "inner of a failed one": false} {
		r, err := idem.Do(s.ctx, keys, key(name), work(s, "x", &counter{}, "done"))
		if name == "inner" {
			s.want(err, idem.ErrResult) // it stored a number
			continue
		}
		s.must(err)
		if r.Replayed != replayed {
			s.Fatalf("%s: replayed %v", name, r.Replayed)
		}
	}
}

// foreignSavepoints would fail if a replay left a savepoint behind: the outer one would then return to the wrong place.
func foreignSavepoints[T any](s *suite[T]) {
	keys := idem.New(s.DB, nil)
	_, err := idem.Do(s.ctx, keys, key("done"), work(s, "done", &counter{}, 1))
	s.must(err)
	f := s.begin()
	err = s.DB.Nested(s.ctx, f.Tx, func(ctx context.Context, t T) error {
		s.must(s.apply(ctx, t, "undone"))
		_, err := idem.DoTx(ctx, keys, t, key("done"), work(s, "done", &counter{}, 1))
		s.must(err)
		s.must(s.apply(ctx, t, "undone"))
		return errPlain
	})
	s.want(err, errPlain)
	s.must(f.Commit(s.ctx))
	s.wantEffects("undone", 0)
}

// answerKeepsForeign is for the fault where a claim is a unique violation, which aborts the transaction of the caller.
func answerKeepsForeign[T any](s *suite[T]) {
	keys, runs := idem.New(s.DB, nil), &counter{}
	done, other := key("done"), key("done")
	done.Fingerprint, other.Fingerprint = idem.FingerprintOf("first"), idem.FingerprintOf("other")
	_, err := idem.Do(s.ctx, keys, done, work(s, "done", &counter{}, 1))
	s.must(err)
	_, err = idem.Do(s.ctx, keys, key("declined"), failing(s, "declined", &counter{}, &idem.Failure{Status: 402}))
	s.want(err, idem.ErrFailed)
	_, err = idem.Do(s.ctx, idem.New(s.DB, &idem.Options{TTL: time.Millisecond}), key("old"), work(s, "old", &counter{}, 1))
	s.must(err)
	s.awaitExpiry("idem_key", 2)
	_, err = idem.NewInbox(s.DB, "c", nil).Do(s.ctx, "m", func(context.Context, T) error { return nil })
	s.must(err)
	f := s.begin()
	for _, step := range []struct {
		key  idem.Key
		want error
	}{{done, nil}, {other, idem.ErrMismatch}, {key("declined"), idem.ErrFailed}, {key("old"), idem.ErrKeyExpired}} {
		s.must(s.apply(s.ctx, f.Tx, "mine"))
		_, err = idem.DoTx(s.ctx, keys, f.Tx, step.key, work(s, "mine", runs, 2))
		s.want(err, step.want)
		s.must(s.apply(s.ctx, f.Tx, "mine"))
	}
	handled, err := idem.NewInbox(s.DB, "c", nil).DoTx(s.ctx, f.Tx, "m", func(ctx context.Context, t T) error { return s.apply(ctx, t, "mine") })
	s.must(err)
	if handled {
		s.Fatal("a duplicate was handled")
	}
	s.must(s.apply(s.ctx, f.Tx, "mine"))
	s.must(f.Commit(s.ctx))
	s.count(runs, 0)
	s.wantEffects("mine", 9)
}

func joins[T any](s *suite[T]) {
	keys, inbox := idem.New(s.DB, nil), idem.NewInbox(s.DB, "c", nil)
	err := s.DB.Do(s.ctx, func(ctx context.Context, t T) error {
		s.must(s.apply(ctx, t, "joined"))
		_, err := idem.Do(ctx, keys, key("joined"), work(s, "joined", &counter{}, 1))
		s.must(err)
		_, err = idem.Do(ctx, keys, key("declined"), failing(s, "declined", &counter{}, &idem.Failure{Status: 402}))
		s.want(err, idem.ErrFailed)
		_, err = inbox.Do(ctx, "m", func(ctx context.Context, t T) error { return s.apply(ctx, t, "joined") })
		s.must(err)
		return errPlain
	})
	s.want(err, errPlain)
	s.wantEffects("joined", 0)
	res, err := idem.Do(s.ctx, keys, key("joined"), work(s, "joined", &counter{}, 2))
	s.must(err)
	if res.Replayed {
		s.Fatal("the inner call committed on its own")
	}
	var attempts int
	s.must(s.DB.Do(s.ctx, func(ctx context.Context, t T) error {
		attempts = tx.Attempt(ctx)
		_, err := idem.Do(ctx, keys, key("joined"), work(s, "joined", &counter{}, 2))
		return err
	}))
	if attempts != 1 {
		s.Fatalf("attempt %d", attempts)
	}
	s.wantEffects("joined", 1)
}

// foreignSnapshot: a transaction that began before the answer was committed cannot see it. It fails before the work.
func foreignSnapshot[T any](s *suite[T]) {
	if !s.DB.Dialect().Capabilities.IsolationLevels {
		s.Log("there is one isolation level")
		return
	}
	for _, level := range []string{"repeatable read", "serializable"} {
		keys, runs, name := idem.New(s.DB, nil), &counter{}, "snapshot "+level
		f := s.begin()
		conn := s.DB.Tx(f.Tx)
		for _, query := range []string{"set transaction isolation level " + level, "select count(*) from idem_key"} {
			_, err := conn.Exec(s.ctx, query)
			s.must(err)
		}
		_, err := idem.Do(s.ctx, keys, key(name), work(s, name, runs, 1))
		s.must(err)
		_, err = idem.DoTx(s.ctx, keys, f.Tx, key(name), work(s, name, runs, 2))
		if s.DB.Classify(err) != tx.Retryable {
			s.Fatalf("%s: got %v", level, err)
		}
		s.must(f.Rollback(s.ctx))
		s.count(runs, 1)
		s.wantEffects(name, 1)
	}
}

// innerFailsToStore: the answer of an inner call cannot be stored. What the outer one did must not go with it, unless the
// outer one fails too.
func innerFailsToStore[T any](s *suite[T]) {
	if !s.DB.Dialect().Capabilities.ConcurrentWriters {
		s.Log("one writer at a time: nobody can store an answer meanwhile")
		return
	}
	s.must(idem.Migrate(s.ctx, s.DB, idem.Names{Keys: "other"}))
	_, err := idem.Do(s.ctx, idem.New(s.DB, &idem.Options{Table: "other"}), key("taken"), work(s, "other", &counter{}, 9))
	s.must(err)
	keys := idem.New(s.DB, nil)
	for _, declined := range []error{nil, &idem.Failure{Status: 402}} {
		name := "outer of a success"
		if declined != nil {
			name = "outer of a failure"
		}
		s.exec("delete from idem_key where k = (select k from other)")
		_, err = idem.Do(s.ctx, keys, key(name), func(ctx context.Context, t T) (string, error) {
			s.must(s.apply(ctx, t, name))
			_, err := idem.Do(ctx, keys, key("taken"), func(ctx context.Context, t T) (int, error) {
				s.must(s.apply(ctx, t, "inner"))
				s.exec("insert into idem_key select * from other") // another execution, in spite of the lock
				return 0, declined
			})
			if err == nil || errors.Is(err, idem.ErrFailed) {
				s.Errorf("%s: the inner call got %v", name, err)
			}
			return "done", nil
		})
		s.must(err)
		s.wantEffects(name, 1)
		s.wantEffects("inner", 0)
	}
	f := s.begin()
	s.must(s.apply(s.ctx, f.Tx, "mine"))
	s.exec("delete from idem_key where k = (select k from other)")
	_, err = idem.DoTx(s.ctx, keys, f.Tx, key("taken"), func(ctx context.Context, t T) (int, error) {
		s.exec("insert into idem_key select * from other")
		return 0, nil
	})
	if err == nil {
		s.Fatal("the answer of another was overwritten")
	}
	s.must(s.apply(s.ctx, f.Tx, "mine"))
	s.must(f.Commit(s.ctx))
	s.wantEffects("mine", 2)
}

func undoFails[T any](s *suite[T]) {
	keys, inbox := idem.New(s.DB, nil), idem.NewInbox(s.DB, "c", nil)
	// The closures take away what the undo needs.
	leave := func(ctx context.Context, t T, query string) error {
		_, err := s.DB.Tx(t).Exec(ctx, query)
		return errors.Join(err, s.apply(ctx, t, "left"), errPlain)
	}
	for name, call := range map[string]func(ctx context.Context) error{
		"Do": func(ctx context.Context) error {
			_, err := idem.Do(ctx, keys, key("k"), func(ctx context.Context, t T) (int, error) { return 0, leave(ctx, t, tx.ReleaseSavepoint) })
			return err
		},
		"Inbox.Do": func(ctx context.Context) error {
			_, err := inbox.Do(ctx, "m", func(ctx context.Context, t T) error {
				return leave(ctx, t, "alter table idem_inbox rename to elsewhere")
			})
			return err
		},
	} {
		var inner error
		err := s.DB.Do(s.ctx, func(ctx context.Context, _ T) error {
			inner = call(ctx)
			return nil
		})
		if !errors.Is(inner, errPlain) || holdfast.OutcomeOf(err) != holdfast.NotApplied {
			s.Errorf("%s: got %v inside, and %v", name, inner, err)
		}
	}
	s.wantEffects("left", 0)
	_, err := inbox.Do(s.ctx, "m", func(ctx context.Context, t T) error { return s.apply(ctx, t, "handled") })
	s.must(err)
	s.wantEffects("handled", 1)
}
