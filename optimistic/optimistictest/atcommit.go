package optimistictest

import (
	"context"
	"errors"
	"sync"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/optimistic"
	"github.com/holdfast-go/holdfast/tx"
)

func commitRules[T any]() []rule[T] {
	return []rule[T]{
		{"SetAtCommit", "a write at the commit is not seen before, and applied with the rest", setAtCommit[T]},
		{"SetAtCommitRefused", "its refusal is told as any other, and nothing of the transaction is applied", commitRefused[T]}, // O3
		{"SetAtCommitInASavepoint", "it goes with its savepoint", commitSavepoint[T]},
		{"SetAtCommitElsewhere", "in a transaction of the caller's it is made at once, and refusals leave that usable", commitForeign[T]},
		{"SetAtCommitInUpdate", "Update runs again after a conflict at the commit, and no increment is lost", commitUpdate[T]}, // O12
		{"SetAtCommitAgain", "a retry of what was applied undoes the rest of its transaction", commitAgain[T]},                 // O1
	}
}

func setAtCommit[T any](s *suite[T]) {
	s.make("a", 4)
	s.must(s.DB.Do(s.ctx, func(ctx context.Context, t T) error {
		s.version(s.docs.SetAtCommit(ctx, t, at("a", 4), map[string]any{"title": "late", "size": int64(5)}))(5)
		v, _, err := s.read(ctx, t, "a")
		if v != optimistic.At(4) {
			s.Errorf("it is seen at version %v", v)
		}
		return err
	}))
	s.is("a", "late", 5)
	s.must(s.DB.Do(s.ctx, func(ctx context.Context, t T) error {
		v, err := s.docs.SetAtCommit(ctx, t, optimistic.Want{Key: "a", Version: optimistic.Any()}, title("forced"))
		if v.IsSet() {
			s.Errorf("version %v of any", v)
		}
		return err
	}))
	s.is("a", "forced", 6)
	s.want(s.DB.Do(s.ctx, func(ctx context.Context, t T) error {
		_, err := s.docs.SetAtCommit(ctx, t, at("a", 6), title("undone"))
		return errors.Join(err, errPlain)
	}), errPlain)
	s.is("a", "forced", 6)
	if s.heard.count(optimistic.EventConflict)+s.heard.count(optimistic.EventSelfConflict) != 0 {
		s.Fatalf("heard %v", s.heard.list)
	}
}

func commitRefused[T any](s *suite[T]) {
	s.make("a", 7)
	late := func(w optimistic.Want, set map[string]any) error {
		return s.DB.Do(holdfast.WithCorrelationID(s.ctx, "req-1"), func(ctx context.Context, t T) error {
			_, err := s.docs.InsertTx(ctx, t, optimistic.Want{Key: "undone"}, nil)
			s.must(err)
			_, err = s.docs.SetAtCommit(ctx, t, w, set)
			return err
		})
	}
	for _, n := range []int64{6, 8, 0, 1<<63 - 1} {
		s.conflict(late(at("a", n), title("stale")), optimistic.At(n), optimistic.At(7))
		if got := s.heard.kinds(s, "req-1"); got != "optimistic.conflict " {
			s.Fatalf("heard %q", got)
		}
	}
	for _, w := range []optimistic.Want{at("nobody", 7), at("' or 1=1 --", 7), {Key: "nobody", Version: optimistic.Any()}} {
		err := late(w, title("nobody"))
		if s.want(err, optimistic.ErrNotFound); errors.Is(err, optimistic.ErrConflict) || holdfast.OutcomeOf(err) != holdfast.NotApplied {
			s.Fatalf("got %v", err)
		}
	}
	s.want(late(optimistic.Want{Key: "a"}, nil), optimistic.ErrNoVersion)
	s.want(late(at("a\x00", 7), nil), optimistic.ErrInvalid)
	s.want(late(at("a", 7), map[string]any{"version": 9}), optimistic.ErrInvalid)
	s.want(late(at("a", 7), map[string]any{"no such column": 9}), tx.ErrNotMigrated)
	s.is("a", "made", 7)
	var left int
	s.must(s.DB.Conn().QueryRow(s.ctx, "select count(*) from doc").Scan(&left))
	if left != 1 {
		s.Fatalf("%d rows", left)
	}
	s.must(late(at("a", 7), title("late")))
	s.is("a", "late", 8)
	s.is("undone", "", 0)
}

func commitSavepoint[T any](s *suite[T]) {
	s.make("a", 0)
	s.must(s.DB.Do(s.ctx, func(ctx context.Context, t T) error {
		err := s.DB.Do(ctx, func(ctx context.Context, t T) error {
			_, err := s.docs.SetAtCommit(ctx, t, at("a", 5), title("dropped"))
			return errors.Join(err, errPlain)
		})
		s.want(err, errPlain)
		return s.DB.Do(ctx, func(ctx context.Context, t T) error {
			_, err := s.docs.SetAtCommit(ctx, t, at("a", 0), title("kept"))
			return err
		})
	}))
	s.is("a", "kept", 1)
}

func commitForeign[T any](s *suite[T]) {
	s.make("a", 1)
	f := s.begin()
	_, err := s.docs.SetAtCommit(s.ctx, f.Tx, at("a", 0), title("stale"))
	s.conflict(err, optimistic.At(0), optimistic.At(1))
	_, err = s.docs.SetAtCommit(s.ctx, f.Tx, at("nobody", 0), nil)
	s.want(err, optimistic.ErrNotFound)
	s.version(s.docs.SetAtCommit(s.ctx, f.Tx, at("a", 1), title("now")))(2)
	v, _, err := s.read(s.ctx, f.Tx, "a")
	if s.must(err); v != optimistic.At(2) {
		s.Fatalf("it is not seen: version %v", v)
	}
	s.must(f.Commit(s.ctx))
	s.is("a", "now", 2)
}

func commitUpdate[T any](s *suite[T]) {
	s.make("a", 0)
	docs := optimistic.New(s.DB, table, &optimistic.Options{Attempts: 1000, Observer: s.heard})
	increment := func(between func()) error {
		return docs.Update(s.ctx, "a", func(ctx context.Context, t T) error {
			v, size, err := s.read(ctx, t, "a")
			if err != nil {
				return err
			}
			between()
			_, err = docs.SetAtCommit(ctx, t, optimistic.Want{Key: "a", Version: v}, map[string]any{"size": size + 1})
			return err
		})
	}
	runs := 0
	s.must(increment(func() {
		if runs++; runs == 1 && s.others() {
			s.exec("update doc set size = 1, version = 1 where id = 'a'")
		}
	}))
	total := int64(runs) // the other one's, if there was one
	s.size("a", total)
	if s.others() && (runs != 2 || !s.snapshots() && s.heard.count(optimistic.EventConflict) != 1) {
		s.Fatalf("%d runs, %d conflicts", runs, s.heard.count(optimistic.EventConflict))
	}
	const callers = 32
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			err := increment(func() {})
			for s.snapshots() && errors.Is(err, tx.ErrAttempts) {
				err = increment(func() {})
			}
			if err != nil {
				s.Error(err)
			}
		})
	}
	wg.Wait()
	s.size("a", total+callers)
}

func commitAgain[T any](s *suite[T]) {
	s.make("a", 0)
	write := func(ctx context.Context, t T) error {
		if _, err := s.DB.Tx(t).Exec(ctx, "insert into doc (id) select 'log ' || count(*) from doc"); err != nil {
			return err
		}
		_, err := s.docs.SetAtCommit(ctx, t, token("a", 0, "op-1"), title("mine"))
		return err
	}
	s.must(s.DB.Do(s.ctx, write))
	err := s.DB.Do(s.ctx, write)
	if s.want(err, optimistic.ErrApplied); holdfast.OutcomeOf(err) != holdfast.Applied || errors.Is(err, optimistic.ErrConflict) {
		s.Fatalf("got %v, which is %v", err, holdfast.OutcomeOf(err))
	}
	s.must(s.docs.Update(s.ctx, "a", write))
	if got := s.heard.count(optimistic.EventSelfConflict); got != 2 {
		s.Fatalf("%d self-conflicts were told", got)
	}
	s.is("a", "mine", 1)
	var rows int
	s.must(s.DB.Conn().QueryRow(s.ctx, "select count(*) from doc").Scan(&rows))
	if rows != 2 {
		s.Fatalf("%d rows: the rest was done again", rows)
	}
}
