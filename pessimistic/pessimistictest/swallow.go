package pessimistictest

import (
	"context"
	"errors"
	"sync"

	"github.com/holdfast-go/holdfast/pessimistic"
	"github.com/holdfast-go/holdfast/tx"
)

// Code that goes on after a failed lock as if it had it must not commit the half that it did (B37e).
func swallowRules[T any]() []rule[T] {
	return []rule[T]{
		{"swallowed, policy", "A closure that goes on without a lock that was not available commits all that it did.", rowLocks, swallowsPolicy[T]},
		{"swallowed, timeout", "An error of the server's lock_timeout that is swallowed commits nothing, and somebody is told (B37e).", rowLocks, swallowsTimeout[T]},
		{"swallowed, deadlock", "A deadlock that is swallowed commits no half: Do refuses, and starts over if it was in a savepoint (B37e).", rowLocks, swallowsDeadlock[T]},
	}
}

const spend = "update account set balance = balance - 1 where id = $1"

func swallowsPolicy[T any](s *suite[T]) {
	holder := s.begin()
	s.must(s.locks(pessimistic.Options{}).Lock(s.ctx, holder.Tx, accounts.Rows(2)))
	l := s.locks(pessimistic.Options{Wait: pessimistic.NoWait})
	s.must(s.DB.Do(s.ctx, func(ctx context.Context, t T) error {
		_, err := s.DB.Tx(t).Exec(ctx, spend, 1)
		s.must(err)
		s.want(l.Lock(ctx, t, accounts.Rows(2)), pessimistic.ErrNotAvailable)
		_, err = s.DB.Tx(t).Exec(ctx, spend, 3)
		return err
	}))
	s.balances(99, 100, 99)
}

// balances fails unless they are those of the first accounts.
func (s *suite[T]) balances(want ...int64) {
	s.Helper()
	for i, n := range want {
		if got := s.number("select balance from account where id = $1", i+1); got != n {
			s.Errorf("account %d has %d, want %d", i+1, got, n)
		}
	}
}

func swallowsTimeout[T any](s *suite[T]) {
	holder := s.begin()
	s.must(s.locks(pessimistic.Options{}).Lock(s.ctx, holder.Tx, accounts.Rows(2)))
	half := func(ctx context.Context, t T) {
		_, err := s.DB.Tx(t).Exec(ctx, "set local lock_timeout = '1ms'")
		s.must(err)
		_, err = s.DB.Tx(t).Exec(ctx, spend, 1)
		s.must(err)
		s.want(s.locks(pessimistic.Options{}).Lock(ctx, t, accounts.Rows(2)), pessimistic.ErrNotAvailable)
	}
	err := s.DB.With(tx.Options{Isolation: s.level, Attempts: 2}).Do(s.ctx, func(ctx context.Context, t T) error {
		half(ctx, t)
		return nil
	})
	if err == nil {
		s.Error("Do says that it committed")
	}
	f := s.begin()
	half(s.ctx, f.Tx)
	if err := f.Commit(s.ctx); err == nil {
		s.Error("the caller's commit says that it did")
	}
	s.balances(100)
}

func swallowsDeadlock[T any](s *suite[T]) {
	l := s.locks(pessimistic.Options{})
	s.deadlock(func(ctx context.Context, t T, row int) bool {
		return l.Lock(ctx, t, accounts.Rows(row)) == nil
	}, func(errs []error, runs []int) {
		if !errors.Is(errors.Join(errs...), tx.ErrTxAborted) || runs[0]+runs[1] != 2 {
			s.Errorf("got %v in %v runs", errs, runs)
		}
	})
	s.deadlock(func(ctx context.Context, t T, row int) bool {
		return s.DB.Nested(ctx, t, func(ctx context.Context, t T) error { return l.Lock(ctx, t, accounts.Rows(row)) }) == nil
	}, func(errs []error, runs []int) {
		if err := errors.Join(errs...); err != nil || runs[0]+runs[1] < 3 {
			s.Errorf("got %v in %v runs", errs, runs)
		}
	})
}

// deadlock runs two closures that want the row that the other has, and go on without it. What each did must be there whole,
// or not at all.
func (s *suite[T]) deadlock(lock func(ctx context.Context, t T, row int) bool, check func(errs []error, runs []int)) {
	s.Helper()
	s.exec("update account set balance = 100")
	var both, all sync.WaitGroup // both have their first row
	both.Add(2)
	errs, runs := make([]error, 2), make([]int, 2)
	for i := range 2 {
		all.Go(func() {
			errs[i] = s.DB.Do(s.ctx, func(ctx context.Context, t T) error {
				runs[i]++
				if err := s.locks(pessimistic.Options{}).Lock(ctx, t, accounts.Rows(i+1)); err != nil {
					return err
				}
				if _, err := s.DB.Tx(t).Exec(ctx, spend, 3+i); err != nil {
					return err
				}
				if runs[i] == 1 {
					both.Done()
					both.Wait()
				}
				if !lock(ctx, t, 2-i) {
					return nil // as if nothing were wrong
				}
				_, err := s.DB.Tx(t).Exec(ctx, spend, 5+i)
				return err
			})
		})
	}
	all.Wait()
	want := []int64{100, 100, 99, 99, 99, 99}
	for i, err := range errs {
		if err != nil {
			want[2+i], want[4+i] = 100, 100
		}
	}
	s.balances(want...)
	check(errs, runs)
}
