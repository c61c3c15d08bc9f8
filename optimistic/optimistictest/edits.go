package optimistictest

import (
	"context"
	"errors"
	"sync"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/optimistic"
	"github.com/holdfast-go/holdfast/tx"
)

func editRules[T any]() []rule[T] {
	return []rule[T]{
		{"Edit", "an edit reads the columns, writes what was decided, and leaves the row alone if that is nothing", edit[T]},
		{"EditRunsAgain", "after a lost race it reads again, in a fresh transaction", editAgain[T]}, // O12
		{"EditStorm", "64 callers of one row all get through, and no increment is lost", editStorm[T]},
		{"EditOfAVersion", "for a version that the caller brings, another one is a conflict and the end", editOfAVersion[T]}, // O9
		{"EditToken", "a retry of an edit that was applied is a success, and decides nothing", editToken[T]},                 // O1
		{"EditRefuses", "what cannot be, other errors and panics end it, and nothing is written", editRefuses[T]},
		{"EditInsideDo", "inside another closure it writes at once, and a conflict leaves the closure usable", editInside[T]},
		{"EditFallsOver", "a hot row is locked as it is read, and external calls are refused", editFallsOver[T]}, // O16
	}
}

// grow adds 1 to the size of a row.
func grow[T any](s *suite[T], docs *optimistic.Rows[T], w optimistic.Want, between func(ctx context.Context)) (optimistic.Version, error) {
	var size *int64
	return docs.Edit(s.ctx, w, map[string]any{"size": &size}, func(ctx context.Context, _ T) (map[string]any, error) {
		if between != nil {
			between(ctx)
		}
		if size == nil {
			size = new(int64)
		}
		return map[string]any{"size": *size + 1}, nil
	})
}

func edit[T any](s *suite[T]) {
	s.make("a", 0)
	s.make("b", 7)
	a, b := optimistic.Want{Key: "a"}, optimistic.Want{Key: "b"}
	s.version(grow(s, s.docs, a, nil))(1)
	s.version(grow(s, s.docs, a, nil))(2)
	s.size("a", 2)
	var id, text string
	var v optimistic.Version
	read := map[string]any{"id": &id, "title": &text, "version": &v}
	s.version(s.docs.Edit(s.ctx, b, read, func(ctx context.Context, t T) (map[string]any, error) {
		if id != "b" || text != "made" || v != optimistic.At(7) {
			s.Errorf("read %q, %q at version %v", id, text, v)
		}
		_, err := s.DB.Tx(t).Exec(ctx, "insert into doc (id, title) values ('log', $1)", text)
		return title("edited"), err
	}))(8)
	s.is("b", "edited", 8)
	s.is("log", "made", 0)
	s.version(s.docs.Edit(s.ctx, b, nil, func(ctx context.Context, t T) (map[string]any, error) {
		_, err := s.DB.Tx(t).Exec(ctx, "update doc set title = 'another' where id = 'log'")
		return nil, err
	}))(8)
	s.is("b", "edited", 8)
	s.is("log", "another", 0)
}

func editAgain[T any](s *suite[T]) {
	s.make("a", 0)
	runs := 0
	s.version(grow(s, s.docs, optimistic.Want{Key: "a"}, func(ctx context.Context) {
		if runs++; runs > 2 || !s.others() {
			return
		}
		s.exec("update doc set size = coalesce(size, 0) + 1, version = version + 1 where id = 'a'")
		if !s.snapshots() && optimistic.Attempt(ctx) != runs {
			s.Errorf("attempt %d of %d", optimistic.Attempt(ctx), runs)
		}
	}))(map[bool]int64{true: 3, false: 1}[s.others()])
	if !s.others() {
		return
	}
	s.size("a", 3)
	if conflicts := s.heard.count(optimistic.EventConflict); runs != 3 || conflicts != 2 && !s.snapshots() {
		s.Fatalf("%d runs, %d conflicts", runs, conflicts)
	}
}

func editStorm[T any](s *suite[T]) {
	s.make("a", 0)
	docs := optimistic.New(s.DB, table, &optimistic.Options{Attempts: 1000})
	const callers, each = 64, 2
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for done := 0; done < each; {
				switch _, err := grow(s, docs, optimistic.Want{Key: "a"}, nil); {
				case err == nil:
					done++
				case !s.snapshots() || !errors.Is(err, tx.ErrAttempts):
					s.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	s.size("a", callers*each)
}

func editOfAVersion[T any](s *suite[T]) {
	s.make("a", 7)
	runs := 0
	_, err := grow(s, s.docs, at("a", 6), func(context.Context) { runs++ })
	s.conflict(err, optimistic.At(6), optimistic.At(7))
	if runs != 0 || errors.Is(err, optimistic.ErrContended) || s.heard.count(optimistic.EventConflict) != 1 {
		s.Fatalf("%d runs, %v", runs, err)
	}
	s.version(grow(s, s.docs, at("a", 7), nil))(8)
	if !s.others() {
		return
	}
	_, err = grow(s, s.docs, at("a", 8), func(context.Context) {
		if runs++; runs == 1 {
			s.exec("update doc set version = version + 1 where id = 'a'")
		}
	})
	s.conflict(err, optimistic.At(8), optimistic.At(9))
	if runs != 1 { // at the higher levels, too: the fresh transaction finds the conflict as it reads
		s.Fatalf("%d runs", runs)
	}
}

func editToken[T any](s *suite[T]) {
	s.make("a", 0)
	runs := 0
	w := optimistic.Want{Key: "a", Token: "op-1"}
	for range 3 {
		s.version(grow(s, s.docs, w, func(context.Context) { runs++ }))(1)
	}
	s.size("a", 1)
	if runs != 1 || s.heard.count(optimistic.EventSelfConflict) != 2 || s.heard.count(optimistic.EventConflict) != 0 {
		s.Fatalf("%d runs, heard %v", runs, s.heard.list)
	}
	s.version(grow(s, s.docs, optimistic.Want{Key: "a"}, nil))(2) // removes the token
	s.version(grow(s, s.docs, w, nil))(3)
	w.Version = optimistic.At(0)
	s.version(grow(s, s.docs, w, nil))(3)
	w.Token = "op-2"
	_, err := grow(s, s.docs, w, nil)
	s.conflict(err, optimistic.At(0), optimistic.At(3))
}

func editRefuses[T any](s *suite[T]) {
	s.make("a", 0)
	w := optimistic.Want{Key: "a"}
	runs := 0
	decide := func(ctx context.Context, t T) (map[string]any, error) {
		runs++
		_, err := s.docs.InsertTx(ctx, t, optimistic.Want{Key: "undone"}, nil)
		return title("undone"), err
	}
	_, err := s.docs.Edit(s.ctx, w, nil, nil)
	s.want(err, optimistic.ErrInvalid)
	_, err = s.docs.Edit(s.ctx, optimistic.Want{Key: "a", Version: optimistic.Any()}, nil, decide)
	s.want(err, optimistic.ErrInvalid)
	_, err = s.docs.Edit(s.ctx, w, map[string]any{"": new(int)}, decide)
	s.want(err, optimistic.ErrInvalid)
	_, err = s.docs.Edit(s.ctx, optimistic.Want{Key: "nobody"}, nil, decide)
	s.want(err, optimistic.ErrNotFound)
	_, err = s.docs.Edit(s.ctx, w, map[string]any{`title" from doc; drop table doc --`: new(string)}, decide)
	s.want(err, tx.ErrNotMigrated)
	ctx, cancel := context.WithCancelCause(s.ctx)
	cancel(errPlain)
	_, err = s.docs.Edit(ctx, w, nil, decide)
	s.want(err, errPlain)
	if runs != 0 {
		s.Fatalf("%d runs", runs)
	}
	for _, set := range []map[string]any{{"id": "b"}, {"version": 7}, {"op": "x"}, {"a\x00": 1}} {
		_, err = s.docs.Edit(s.ctx, w, nil, func(ctx context.Context, t T) (map[string]any, error) {
			_, err := decide(ctx, t)
			return set, err
		})
		s.want(err, optimistic.ErrInvalid)
	}
	for _, target := range []error{errPlain, tx.ErrDiscard} {
		_, err = s.docs.Edit(s.ctx, w, nil, func(ctx context.Context, t T) (map[string]any, error) {
			set, err := decide(ctx, t)
			return set, errors.Join(err, target)
		})
		if holdfast.OutcomeOf(err) != holdfast.NotApplied {
			s.Fatalf("got %v", err)
		}
	}
	func() {
		defer func() { _ = recover() }()
		_, _ = s.docs.Edit(s.ctx, w, nil, func(ctx context.Context, t T) (map[string]any, error) { _, _ = decide(ctx, t); panic("boom") })
	}()
	s.is("a", "made", 0)
	var left int
	s.must(s.DB.Conn().QueryRow(s.ctx, "select count(*) from doc").Scan(&left))
	if left != 1 {
		s.Fatalf("%d rows", left)
	}
}

func editInside[T any](s *suite[T]) {
	s.make("a", 1)
	s.must(s.DB.Do(s.ctx, func(ctx context.Context, t T) error {
		e := *s
		e.ctx = ctx
		e.version(grow(&e, s.docs, optimistic.Want{Key: "a"}, nil))(2)
		v, size, err := s.read(ctx, t, "a")
		if s.must(err); v != optimistic.At(2) || size != 1 {
			s.Fatalf("size %d at version %v", size, v)
		}
		_, err = grow(&e, s.docs, at("a", 1), nil)
		s.conflict(err, optimistic.At(1), optimistic.At(2))
		e.version(grow(&e, s.docs, at("a", 2), nil))(3)
		return nil
	}))
	s.is("a", "made", 3)
}

func editFallsOver[T any](s *suite[T]) {
	if !s.DB.Dialect().Capabilities.RowLocks {
		return // the one writer is locked from the start
	}
	s.make("a", 0)
	docs := optimistic.New(s.DB, table, &optimistic.Options{LockAfter: 1, Observer: s.heard})
	var refused []bool
	s.version(grow(s, docs, optimistic.Want{Key: "a"}, func(ctx context.Context) {
		refused = append(refused, errors.Is(holdfast.ExternalCall(ctx), holdfast.ErrLockHeld))
		if len(refused) == 1 {
			s.exec("update doc set version = version + 1 where id = 'a'")
			return
		}
		var free int
		s.must(s.DB.Conn().QueryRow(s.ctx, "select count(*) from (select from doc for update skip locked) free").Scan(&free))
		if free != 0 && !s.snapshots() {
			s.Error("the row is not locked")
		}
	}))(2)
	if !s.snapshots() && (len(refused) != 2 || refused[0] || !refused[1] || s.heard.count(optimistic.EventFellOver) != 1) {
		s.Fatalf("calls refused: %v", refused)
	}
}
