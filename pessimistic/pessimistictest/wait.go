package pessimistictest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/pessimistic"
)

func waitRules[T any]() []rule[T] {
	return []rule[T]{
		{"nowait", "NoWait fails at once, leaves none of the call locked, and the transaction usable.", rowLocks, func(s *suite[T]) { notAvailable(s, pessimistic.NoWait) }},
		{"for", "For fails when its time is over, leaves none of the call locked, and the transaction usable.", rowLocks, func(s *suite[T]) { notAvailable(s, pessimistic.For(time.Millisecond)) }},
		{"do is refused", "Do tells that a lock was not available, and does not run again.", rowLocks, doNotAvailable[T]},
		{"timeout restored", "For puts back the time that the caller's statements wait, whether it got the locks or not.", rowLocks, timeoutRestored[T]},
		{"skip locked", "SkipLocked locks what is free and reads that alone.", rowLocks, skips[T]},
		{"strengths", "Share can be shared, KeyShare goes beside NoKeyUpdate, Update keeps everybody away.", rowLocks, strengths[T]},
		{"cancelled", "A wait whose context ends is over, and leaves no lock and no connection behind (B37h).", rowLocks, cancelled[T]},
		{"no pretence", "Without row locks, a policy that cannot be kept is refused before anything is sent.", noRowLocks, noPretence[T]},
	}
}

func notAvailable[T any](s *suite[T], w pessimistic.Wait) {
	holder := s.begin()
	s.must(s.locks(pessimistic.Options{}).Lock(s.ctx, holder.Tx, accounts.Rows(2)))
	f := s.begin()
	_, err := s.DB.Tx(f.Tx).Exec(s.ctx, "update account set balance = 7 where id = 9")
	s.must(err)
	err = s.locks(pessimistic.Options{Wait: w}).Lock(s.ctx, f.Tx, accounts.Rows(1, 2, 3))
	var e *pessimistic.NotAvailableError
	if !errors.As(err, &e) || e.Name != "account" || e.Err == nil {
		s.Fatalf("got %v", err)
	}
	s.want(err, pessimistic.ErrNotAvailable)
	s.usable(f.Tx)
	s.wantFree(true, accounts.Rows(1))
	s.must(s.locks(pessimistic.Options{Wait: w}).Lock(s.ctx, f.Tx, accounts.Rows(1, 3)))
	s.must(f.Commit(s.ctx))
	if n := s.number("select balance from account where id = 9"); n != 7 {
		s.Fatalf("what was done before the attempt is lost: %d", n)
	}
}

func doNotAvailable[T any](s *suite[T]) {
	holder := s.begin()
	s.must(s.locks(pessimistic.Options{}).Lock(s.ctx, holder.Tx, accounts.Rows(2)))
	for _, w := range []pessimistic.Wait{pessimistic.NoWait, pessimistic.For(time.Millisecond)} {
		o := &events{}
		err := s.locks(pessimistic.Options{Wait: w, Observer: o}).Do(s.ctx, []pessimistic.Rows{accounts.Rows(1, 2)}, func(context.Context, T) error {
			s.Error("the closure ran")
			return nil
		})
		s.want(err, pessimistic.ErrNotAvailable)
		if got, want := o.take(s, ""), "pessimistic.not_available account 0; "; got != want {
			s.Errorf("got %q, want %q", got, want)
		}
	}
}

func timeoutRestored[T any](s *suite[T]) {
	holder := s.begin()
	s.must(s.locks(pessimistic.Options{}).Lock(s.ctx, holder.Tx, accounts.Rows(2)))
	f, l := s.begin(), s.locks(pessimistic.Options{Wait: pessimistic.For(time.Millisecond)})
	setting := func(want string) {
		s.Helper()
		var got string
		s.must(s.DB.Tx(f.Tx).QueryRow(s.ctx, "select current_setting('lock_timeout')").Scan(&got))
		if got != want {
			s.Errorf("lock_timeout is %q, want %q", got, want)
		}
	}
	s.must(l.Lock(s.ctx, f.Tx, accounts.Rows(1)))
	setting("0")
	_, err := s.DB.Tx(f.Tx).Exec(s.ctx, "set local lock_timeout = '7s'")
	s.must(err)
	s.must(l.Lock(s.ctx, f.Tx, accounts.Rows(1)))
	setting("7s")
	s.want(l.Lock(s.ctx, f.Tx, accounts.Rows(2)), pessimistic.ErrNotAvailable)
	setting("7s")
}

func skips[T any](s *suite[T]) {
	holder := s.begin()
	s.must(s.locks(pessimistic.Options{}).Lock(s.ctx, holder.Tx, accounts.Rows(2)))
	f := s.begin()
	var id int64
	var got []int64
	all := accounts.Rows(3, 2, 1, 99).Read([]string{"id"}, []any{&id}, func(int) error {
		got = append(got, id)
		return nil
	})
	s.must(s.locks(pessimistic.Options{Wait: pessimistic.SkipLocked}).Lock(s.ctx, f.Tx, all))
	if !slices.Equal(got, []int64{1, 3}) {
		s.Fatalf("locked %v, want 1 and 3", got)
	}
	s.wantFree(false, accounts.Rows(3))
}

func strengths[T any](s *suite[T]) {
	with := func(strength pessimistic.Strength) *pessimistic.Locks[T] {
		return s.locks(pessimistic.Options{Strength: strength, Wait: pessimistic.NoWait})
	}
	const u, n, sh, k = pessimistic.Update, pessimistic.NoKeyUpdate, pessimistic.Share, pessimistic.KeyShare
	for _, c := range []struct {
		held, wanted pessimistic.Strength
		free         bool
	}{{u, k, false}, {u, u, false}, {n, k, true}, {n, sh, false}, {n, n, false}, {sh, sh, true}, {sh, n, false}, {k, n, true}, {k, u, false}} {
		holder, f := s.begin(), s.begin()
		s.must(with(c.held).Lock(s.ctx, holder.Tx, accounts.Rows(1)))
		err := with(c.wanted).Lock(s.ctx, f.Tx, accounts.Rows(1))
		if err != nil && !errors.Is(err, pessimistic.ErrNotAvailable) || (err == nil) != c.free {
			s.Errorf("for %v beside %v: got %v", c.wanted, c.held, err)
		}
		s.must(holder.Rollback(s.ctx))
		s.must(f.Rollback(s.ctx))
	}
}

func cancelled[T any](s *suite[T]) {
	l := s.locks(pessimistic.Options{})
	holder := s.begin()
	s.must(l.Lock(s.ctx, holder.Tx, accounts.Rows(2)))
	for range 20 { // more than there are connections
		ctx, cancel := context.WithCancel(s.ctx)
		pid, done := make(chan int32, 1), make(chan error, 1)
		go func() {
			done <- s.DB.Do(ctx, func(ctx context.Context, t T) error {
				var p int32
				err := s.DB.Tx(t).QueryRow(ctx, "select pg_backend_pid()").Scan(&p)
				pid <- p
				return errors.Join(err, l.Lock(ctx, t, accounts.Rows(1, 2)))
			})
		}()
		s.waits(<-pid)
		cancel()
		s.want(<-done, context.Canceled)
	}
	s.must(l.Do(s.ctx, []pessimistic.Rows{accounts.Rows(1)}, func(context.Context, T) error { return nil }))
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	s.want(l.Do(ctx, []pessimistic.Rows{accounts.Rows(1)}, func(context.Context, T) error { return nil }), context.Canceled)
}

func noPretence[T any](s *suite[T]) {
	for _, w := range []pessimistic.Wait{pessimistic.NoWait, pessimistic.SkipLocked, pessimistic.For(time.Second)} {
		l := s.locks(pessimistic.Options{Wait: w})
		f := s.begin()
		err := l.Lock(s.ctx, f.Tx, accounts.Rows(1))
		var e *pessimistic.UnsupportedError
		if !errors.As(err, &e) || e.Dialect != s.DB.Dialect().Name {
			s.Errorf("got %v", err)
		}
		s.usable(f.Tx)
		s.must(f.Rollback(s.ctx))
		s.want(l.Do(s.ctx, []pessimistic.Rows{accounts.Rows(1)}, func(context.Context, T) error { return nil }), pessimistic.ErrUnsupported)
	}
	f := s.begin()
	s.want(s.locks(pessimistic.Options{}).Advisory(s.ctx, f.Tx, "n", "a"), pessimistic.ErrUnsupported)
	_, err := s.locks(pessimistic.Options{}).TryAdvisory(s.ctx, f.Tx, "n", "a")
	s.want(err, pessimistic.ErrUnsupported)
}
