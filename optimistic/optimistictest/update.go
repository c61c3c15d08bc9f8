package optimistictest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/optimistic"
	"github.com/holdfast-go/holdfast/tx"
)

func updateRules[T any]() []rule[T] {
	return []rule[T]{
		{"UpdateRunsAgain", "after a lost race the closure runs in a fresh transaction, which sees what the other wrote", updateAgain[T]}, // O12
		{"UpdateStorm", "64 callers of one row all get through, and no increment is lost", updateStorm[T]},                                // O17
		{"UpdateGivesUp", "it stops at the cap, with the cause and the last error", updateGivesUp[T]},
		{"UpdateKnowsAForeignVersion", "a closure that comes with the same version again is not run forever", updateForeignVersion[T]},
		{"UpdateFallsOver", "after the losses that are allowed the row is locked, and external calls are refused", updateFallsOver[T]}, // O16
		{"UpdateInsideDo", "inside another closure it runs once, and the conflict is the error", updateInside[T]},
		{"UpdateErrors", "other errors, panics and cancellation end it, and nothing is written", updateErrors[T]},
	}
}

var errPlain = errors.New("plain")

func (s *suite[T]) read(ctx context.Context, t T, id string) (v optimistic.Version, size int64, err error) {
	err = s.DB.Tx(t).QueryRow(ctx, "select version, coalesce(size, 0) from doc where id = $1", id).Scan(&v, &size)
	return v, size, err
}

// increment is a closure of Update: it reads, decides and writes.
func (s *suite[T]) increment(id string, between func(ctx context.Context)) func(context.Context, T) error {
	return func(ctx context.Context, t T) error {
		v, size, err := s.read(ctx, t, id)
		if err != nil {
			return err
		}
		if between != nil {
			between(ctx)
		}
		_, err = s.docs.SetTx(ctx, t, optimistic.Want{Key: id, Version: v}, map[string]any{"size": size + 1})
		return err
	}
}

func (s *suite[T]) size(id string, want int64) {
	s.Helper()
	var got, version int64
	s.must(s.DB.Conn().QueryRow(s.ctx, "select size, version from doc where id = $1", id).Scan(&got, &version))
	if got != want || version != want {
		s.Fatalf("size %d at version %d, want %d", got, version, want)
	}
}

// other is a writer that commits in the middle of a closure. SQLite, where that cannot be, gets a conflict made by hand.
func (s *suite[T]) others() bool { return s.DB.Dialect().Capabilities.ConcurrentWriters }

func updateAgain[T any](s *suite[T]) {
	s.make("a", 0)
	if !s.others() {
		s.must(s.docs.Update(s.ctx, "a", s.increment("a", nil)))
		s.size("a", 1)
		return
	}
	runs := 0
	s.must(s.docs.Update(s.ctx, "a", s.increment("a", func(ctx context.Context) {
		if runs++; runs <= 2 {
			s.exec("update doc set size = coalesce(size, 0) + 1, version = version + 1 where id = 'a'")
		}
		if want := runs; !s.snapshots() && optimistic.Attempt(ctx) != want {
			s.Errorf("attempt %d, want %d", optimistic.Attempt(ctx), want)
		}
	})))
	s.size("a", 3)
	if runs != 3 {
		s.Fatalf("%d runs", runs)
	}
}

func updateStorm[T any](s *suite[T]) {
	s.make("a", 0)
	docs := optimistic.New(s.DB, table, &optimistic.Options{Attempts: 1000})
	const callers, each = 64, 2
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range each {
				if err := docs.Update(s.ctx, "a", s.increment("a", nil)); err != nil {
					if s.snapshots() && errors.Is(err, tx.ErrAttempts) {
						s.must(docs.Update(s.ctx, "a", s.increment("a", nil)))
						continue
					}
					s.Error(err)
				}
			}
		})
	}
	wg.Wait()
	s.size("a", callers*each)
}

func updateGivesUp[T any](s *suite[T]) {
	s.make("a", 0)
	docs := optimistic.New(s.DB, table, &optimistic.Options{Attempts: 4, LockAfter: -1, Observer: s.heard})
	runs := int64(0)
	err := docs.Update(s.ctx, "a", func(context.Context, T) error {
		runs++
		return &optimistic.ConflictError{Table: "doc", Key: "a", Expected: optimistic.At(runs), Current: optimistic.At(runs + 1)}
	})
	var gaveUp *optimistic.ContendedError
	if !errors.As(err, &gaveUp) || gaveUp.Attempts != 4 || runs != 4 || holdfast.OutcomeOf(err) != holdfast.NotApplied {
		s.Fatalf("%d runs, got %v", runs, err)
	}
	for _, target := range []error{optimistic.ErrContended, optimistic.ErrAttempts, optimistic.ErrConflict} {
		s.want(err, target)
	}
	if s.heard.count(optimistic.EventContended) != 1 {
		s.Fatal("nobody was told")
	}
	ctx, cancel := context.WithCancelCause(s.ctx)
	err = docs.Update(ctx, "a", func(context.Context, T) error {
		runs++
		cancel(errPlain)
		return &optimistic.ConflictError{Table: "doc", Key: "a", Expected: optimistic.At(runs), Current: optimistic.At(runs + 1)}
	})
	s.want(err, errPlain)
	s.want(err, optimistic.ErrConflict)
}

func updateForeignVersion[T any](s *suite[T]) {
	s.make("a", 5)
	runs := 0
	err := s.docs.Update(s.ctx, "a", func(ctx context.Context, t T) error {
		runs++
		_, err := s.docs.SetTx(ctx, t, at("a", 3), title("from the form"))
		return err
	})
	s.conflict(err, optimistic.At(3), optimistic.At(5))
	if runs != 2 || errors.Is(err, optimistic.ErrContended) {
		s.Fatalf("%d runs, %v", runs, err)
	}
}

func updateFallsOver[T any](s *suite[T]) {
	s.make("a", 0)
	docs := optimistic.New(s.DB, table, &optimistic.Options{LockAfter: 2, Observer: s.heard})
	var attempts []int
	refused := 0
	conflicts := int64(0)
	s.must(docs.Update(s.ctx, "a", func(ctx context.Context, t T) error {
		attempts = append(attempts, optimistic.Attempt(ctx))
		if optimistic.Attempt(ctx) <= 2 {
			conflicts++
			return &optimistic.ConflictError{Table: "doc", Key: "a", Expected: optimistic.At(conflicts)}
		}
		if errors.Is(holdfast.ExternalCall(ctx), holdfast.ErrLockHeld) {
			refused++
		}
		return s.increment("a", nil)(ctx, t)
	}))
	s.size("a", 1)
	locks := s.DB.Dialect().Capabilities.RowLocks
	if want := map[bool]int{true: 1, false: 0}[locks]; len(attempts) != 3 || refused != want || s.heard.count(optimistic.EventFellOver) != want {
		s.Fatalf("attempts %v, %d calls were refused, %d falls", attempts, refused, s.heard.count(optimistic.EventFellOver))
	}
	if !locks {
		return
	}
	// The row is known to be hot now: the next caller locks at once, and another writer waits.
	var waited atomic.Bool
	done := make(chan error, 1)
	err := docs.Update(s.ctx, "a", func(ctx context.Context, t T) error {
		if !errors.Is(holdfast.ExternalCall(ctx), holdfast.ErrLockHeld) {
			return nil // slow machine: it has cooled down
		}
		waited.Store(true)
		go func() {
			_, err := s.DB.Conn().Exec(s.ctx, "update doc set title = 'waited' where id = 'a'")
			done <- err
		}()
		return s.increment("a", nil)(ctx, t)
	})
	s.must(err)
	if waited.Load() {
		s.must(<-done)
	}
}

func updateInside[T any](s *suite[T]) {
	s.make("a", 1)
	runs := 0
	s.must(s.DB.Do(s.ctx, func(ctx context.Context, t T) error {
		err := s.docs.Update(ctx, "a", func(ctx context.Context, t T) error {
			runs++
			if _, err := s.docs.SetTx(ctx, t, at("a", 1), title("undone")); err != nil {
				return err
			}
			_, err := s.docs.SetTx(ctx, t, at("a", 0), nil)
			return err
		})
		s.conflict(err, optimistic.At(0), optimistic.At(2))
		_, err = s.docs.SetTx(ctx, t, at("a", 1), title("outer"))
		return err
	}))
	if runs != 1 {
		s.Fatalf("%d runs", runs)
	}
	s.is("a", "outer", 2)
}

func updateErrors[T any](s *suite[T]) {
	s.make("a", 0)
	write := func(ctx context.Context, t T) {
		_, err := s.docs.SetTx(ctx, t, at("a", 0), title("undone"))
		s.must(err)
	}
	s.want(s.docs.Update(s.ctx, "a", func(ctx context.Context, t T) error { write(ctx, t); return errPlain }), errPlain)
	func() {
		defer func() { _ = recover() }()
		_ = s.docs.Update(s.ctx, "a", func(ctx context.Context, t T) error { write(ctx, t); panic("boom") })
	}()
	if err := s.docs.Update(s.ctx, "a", func(ctx context.Context, t T) error { write(ctx, t); return tx.ErrDiscard }); err == nil {
		s.Fatal("a discarded transaction counts as done")
	}
	s.want(s.docs.Update(s.ctx, "a", nil), optimistic.ErrInvalid)
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	s.want(s.docs.Update(ctx, "a", func(context.Context, T) error { s.Error("ran"); return nil }), context.Canceled)
	s.is("a", "made", 0)
}
