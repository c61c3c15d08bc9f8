package optimistictest

import (
	"context"

	"github.com/holdfast-go/holdfast/optimistic"
	"github.com/holdfast-go/holdfast/tx"
)

func foreignRules[T any]() []rule[T] {
	return []rule[T]{
		{"ForeignRefusalsLeaveItUsable", "in the caller's own transaction, refusals of every verb leave it usable, and its commit decides", foreignUsable[T]},
		{"ForeignRollback", "a rollback of the caller undoes the write", foreignRollback[T]},
		{"LostRaceInASnapshot", "where the snapshot is older than the other write, a lost race is a serialization failure and no conflict", lostRace[T]}, // O13
		{"Joins", "the plain verbs join the transaction of a closure around them", joins[T]},
	}
}

func foreignUsable[T any](s *suite[T]) {
	s.make("a", 1)
	f := s.begin()
	_, err := s.docs.SetTx(s.ctx, f.Tx, at("a", 0), title("stale"))
	s.conflict(err, optimistic.At(0), optimistic.At(1))
	_, err = s.docs.SetTx(s.ctx, f.Tx, at("nobody", 0), nil)
	s.want(err, optimistic.ErrNotFound)
	_, err = s.docs.SetTx(s.ctx, f.Tx, optimistic.Want{Key: "a"}, nil)
	s.want(err, optimistic.ErrNoVersion)
	_, err = s.docs.InsertTx(s.ctx, f.Tx, optimistic.Want{Key: "a"}, nil)
	s.want(err, optimistic.ErrExists)
	_, err = s.docs.DeleteTx(s.ctx, f.Tx, at("a", 9))
	s.want(err, optimistic.ErrConflict)
	_, err = s.docs.SetTx(s.ctx, f.Tx, at("a\x00", 1), nil)
	s.want(err, optimistic.ErrInvalid)
	_, err = returned(s.ctx, s, f.Tx, at("a", 0))
	s.want(err, optimistic.ErrConflict)
	results, err := s.docs.SetManyTx(s.ctx, f.Tx, []optimistic.Item{{Want: at("a", 0), Set: title("x")}, {Want: at("b", 0), Set: title("x")}})
	s.must(err)
	s.want(results[0].Err, optimistic.ErrConflict)
	s.want(results[1].Err, optimistic.ErrNotFound)
	_, _, err = s.docs.PutTx(s.ctx, f.Tx, optimistic.Want{Key: "a"}, optimistic.Condition{}, optimistic.PlainRefuse, nil)
	s.want(err, optimistic.ErrRequired)
	s.version(s.docs.SetTx(s.ctx, f.Tx, at("a", 1), title("kept")))(2)
	if s.DB.Dialect().Capabilities.ConcurrentWriters {
		s.is("a", "made", 1)
	}
	s.must(f.Commit(s.ctx))
	s.is("a", "kept", 2)
}

func foreignRollback[T any](s *suite[T]) {
	s.make("a", 1)
	f := s.begin()
	s.version(s.docs.SetTx(s.ctx, f.Tx, at("a", 1), title("undone")))(2)
	s.must(f.Rollback(s.ctx))
	s.is("a", "made", 1)
}

func lostRace[T any](s *suite[T]) {
	if !s.DB.Dialect().Capabilities.IsolationLevels {
		s.Log("a transaction that writes is the only one")
		return
	}
	s.make("a", 0)
	runs := 0
	err := s.DB.With(tx.Options{Isolation: s.level, Attempts: 1}).Do(s.ctx, func(ctx context.Context, t T) error {
		runs++
		var v optimistic.Version
		if err := s.DB.Tx(t).QueryRow(ctx, "select version from doc where id = 'a'").Scan(&v); err != nil {
			return err
		}
		s.exec("update doc set version = version + 1 where id = 'a'") // somebody else, committed
		_, err := s.docs.SetTx(ctx, t, optimistic.Want{Key: "a", Version: v}, nil)
		return err
	})
	if !s.snapshots() {
		s.conflict(err, optimistic.At(0), optimistic.At(1))
		return
	}
	if tx.Classify(err) != tx.Retryable {
		s.Fatalf("got %v, of class %v", err, tx.Classify(err))
	}
	if got := s.heard.count(optimistic.EventConflict); got != 0 || runs != 1 {
		s.Fatalf("%d conflicts were told, %d runs", got, runs)
	}
}

func joins[T any](s *suite[T]) {
	s.make("a", 0)
	err := s.DB.Do(s.ctx, func(ctx context.Context, _ T) error {
		s.version(s.docs.Set(ctx, at("a", 0), title("joined")))(1)
		s.version(s.docs.Insert(ctx, optimistic.Want{Key: "b"}, nil))(0)
		if _, err := s.docs.SetMany(ctx, []optimistic.Item{{Want: at("b", 0), Set: title("joined")}}); err != nil {
			return err
		}
		return errPlain
	})
	s.want(err, errPlain)
	s.is("a", "made", 0)
	_, err = s.docs.Set(s.ctx, at("b", 0), nil)
	s.want(err, optimistic.ErrNotFound)
}
