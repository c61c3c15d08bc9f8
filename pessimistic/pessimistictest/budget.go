package pessimistictest

import (
	"context"
	"errors"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/pessimistic"
)

func budgetRules[T any]() []rule[T] {
	return []rule[T]{
		{"hold, no timer", "What the closure did after the budget is not committed, also if no timer has had its turn.", nil, holdsByTheClock[T]},
		{"hold, nothing locked", "A call that locked nothing leaves the settings of a transaction of the caller's as they were.", rowLocks, holdsNothing[T]},
	}
}

// holdsByTheClock returns at the very end of the budget, as a process does that stood still: its timers come a moment later.
func holdsByTheClock[T any](s *suite[T]) {
	const budget, rounds = 3 * time.Millisecond, 25
	l := s.locks(pessimistic.Options{Hold: budget})
	for range rounds {
		err := l.Do(s.ctx, []pessimistic.Rows{accounts.Rows(1)}, func(context.Context, T) error {
			for begun := time.Now(); time.Since(begun) < budget; {
				continue
			}
			return nil
		})
		var e *pessimistic.HoldError
		if !errors.As(err, &e) || holdfast.OutcomeOf(err) != holdfast.NotApplied {
			s.Fatalf("got %v", err)
		}
	}
}

func holdsNothing[T any](s *suite[T]) {
	const names = `select concat_ws(' ', current_setting('transaction_timeout', true), current_setting('statement_timeout'),
		current_setting('idle_in_transaction_session_timeout'), current_setting('lock_timeout'))`
	l := s.locks(pessimistic.Options{Hold: 30 * time.Second})
	ns, holder := s.namespace(), s.begin()
	s.must(l.Advisory(s.ctx, holder.Tx, ns, "held"))
	s.must(l.Lock(s.ctx, holder.Tx, accounts.Rows(1)))
	try := func(ctx context.Context, t T, names ...string) error {
		ok, err := l.TryAdvisory(ctx, t, ns, names...)
		if ok {
			s.Error("got what somebody else holds")
		}
		return err
	}
	skip := l.With(pessimistic.Options{Hold: 30 * time.Second, Wait: pessimistic.SkipLocked})
	for what, call := range map[string]func(ctx context.Context, t T) error{
		"one name": func(ctx context.Context, t T) error { return try(ctx, t, "held") },
		"names":    func(ctx context.Context, t T) error { return try(ctx, t, "free", "held") },
		"not available": func(ctx context.Context, t T) error {
			err := l.With(pessimistic.Options{Hold: 30 * time.Second, Wait: pessimistic.NoWait}).Lock(ctx, t, accounts.Rows(1))
			s.want(err, pessimistic.ErrNotAvailable)
			return nil
		},
		"no job": func(ctx context.Context, t T) error {
			q := jobs
			q.Args = []any{"none"}
			_, err := l.Claim(ctx, t, q)
			return err
		},
		"skipped": func(ctx context.Context, t T) error { return skip.Lock(ctx, t, accounts.Rows(1)) },
		"missing": func(ctx context.Context, t T) error {
			s.want(l.Lock(ctx, t, accounts.Rows(99)), pessimistic.ErrMissing)
			return nil
		},
		"no work": func(ctx context.Context, _ T) error {
			q := jobs
			q.Args = []any{"none"}
			_, err := l.Work(ctx, q, func(context.Context, T) error { return nil })
			return err
		},
		"skipped by Do": func(ctx context.Context, _ T) error {
			return skip.Do(ctx, []pessimistic.Rows{accounts.Rows(1)}, func(context.Context, T) error { return nil })
		},
	} {
		s.must(s.DB.Do(s.ctx, func(ctx context.Context, t T) error {
			for _, before := range []string{"", "1h", "5s", "1h"} { // also where an earlier lock of the transaction has a budget of its own
				if before != "" {
					budget, err := time.ParseDuration(before)
					s.must(err)
					s.must(l.With(pessimistic.Options{Hold: budget}).Lock(ctx, t, accounts.Rows(2)))
				}
				var had, has string
				s.must(s.DB.Tx(t).QueryRow(ctx, names).Scan(&had))
				s.must(call(ctx, t))
				s.must(s.DB.Tx(t).QueryRow(ctx, names).Scan(&has))
				if had != has {
					s.Errorf("%s, after a budget of %q: the timeouts are %q, and were %q", what, before, has, had)
				}
			}
			return nil
		}))
	}
}
