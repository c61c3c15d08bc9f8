package pessimistictest

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/pessimistic"
)

func scopeRules[T any]() []rule[T] {
	return []rule[T]{
		{"external calls", "While a lock is held, an external call is refused with its name, and told with the correlation ID.", nil, externalCalls[T]},
		{"another pool", "A lock of a transaction that is taken in a closure of another database refuses calls until the transaction ends.", nil, anotherPool[T]},
		{"events", "Locks, claims, locks that are not to be had and those that are kept too long are told, with the correlation ID.", nil, tells[T]},
		{"hold", "A closure that keeps its locks too long is told by its context and rolled back.", nil, holds[T]},
		{"hold, process stands still", "Rows are free for others though the process that locked them does nothing.", rowLocks, holdsAlone[T]},
		{"hold, settings", "The budget leaves a stricter setting alone, and ends with the transaction.", rowLocks, holdSettings[T]},
	}
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

var errCalled = errors.New("the call was made")

// call tries a call to another service.
func call(ctx context.Context) error {
	client := http.Client{Transport: pessimistic.Guard(transport(func(*http.Request) (*http.Response, error) { return nil, errCalled }))}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://bank.invalid/", strings.NewReader("{}"))
	if err != nil {
		return err
	}
	_, err = client.Do(r) //nolint:bodyclose // there is none
	return err
}

func externalCalls[T any](s *suite[T]) {
	o := &events{}
	l, ctx := s.locks(pessimistic.Options{Observer: o}), holdfast.WithCorrelationID(s.ctx, "c-1")
	refused := func(ctx context.Context, names ...string) {
		s.Helper()
		for _, err := range []error{call(ctx), holdfast.ExternalCall(ctx)} {
			var held *holdfast.LockHeldError
			if !errors.As(err, &held) || !slices.Equal(held.Locks, names) {
				s.Errorf("got %v, want that %v are held", err, names)
			}
		}
		if got := o.take(s, "c-1"); strings.Count(got, "holdfast.call_refused") != 2*len(names) {
			s.Errorf("told %q", got)
		}
	}
	s.must(l.Do(ctx, []pessimistic.Rows{accounts.Rows(1), stocks.Rows("s1")}, func(ctx context.Context, _ T) error {
		refused(ctx, "account", `st"ock`)
		return nil
	}))
	_, err := l.Work(ctx, jobs, func(ctx context.Context, _ T) error {
		refused(ctx, "job")
		return nil
	})
	s.must(err)
	s.must(s.DB.Do(ctx, func(ctx context.Context, t T) error {
		s.want(call(ctx), errCalled)
		s.must(l.Lock(ctx, t, accounts.Rows(1)))
		refused(ctx, "account")
		_, err := l.Claim(ctx, t, jobs)
		refused(ctx, "account", "job")
		return err
	}))
	s.want(call(ctx), errCalled)
	f, scope := s.begin(), &holdfast.LockScope{}
	fctx := holdfast.WithLockScope(ctx, scope)
	if s.DB.Dialect().Capabilities.AdvisoryLocks {
		s.must(l.Advisory(fctx, f.Tx, s.namespace(), "a"))
		refused(fctx, s.namespace())
	}
	s.must(f.Rollback(s.ctx))
	scope.End()
	s.want(call(fctx), errCalled)
}

func anotherPool[T any](s *suite[T]) {
	l, other := s.locks(pessimistic.Options{}), s.open(s).DB
	held := func(ctx context.Context) {
		s.Helper()
		s.want(call(ctx), holdfast.ErrLockHeld)
		s.want(holdfast.ExternalCall(ctx), holdfast.ErrLockHeld)
	}
	s.must(s.DB.Do(s.ctx, func(ctx context.Context, t T) error {
		err := other.Do(ctx, func(inner context.Context, _ T) error {
			s.want(call(inner), errCalled)
			err := l.Lock(inner, t, accounts.Rows(1))
			held(inner)
			return err
		})
		held(ctx) // the inner transaction has ended, and its scope with it
		return err
	}))
	s.want(call(s.ctx), errCalled)
	s.must(s.DB.Do(s.ctx, func(ctx context.Context, _ T) error {
		s.want(call(ctx), errCalled) // in another transaction on the same pool
		return nil
	}))
}

func tells[T any](s *suite[T]) {
	o := &events{}
	l, ctx := s.locks(pessimistic.Options{Observer: o}), holdfast.WithCorrelationID(s.ctx, "c-1")
	want := func(text string) {
		s.Helper()
		if got := o.take(s, "c-1"); got != text {
			s.Errorf("told %q, want %q", got, text)
		}
	}
	s.must(l.Do(ctx, []pessimistic.Rows{stocks.Rows("s1"), accounts.Rows(1, 2)}, func(context.Context, T) error { return nil }))
	want(`pessimistic.locked account 2; pessimistic.locked st"ock 1; `)
	f, q := s.begin(), jobs
	q.Limit = 4
	_, err := l.Claim(ctx, f.Tx, q)
	s.must(err)
	want("pessimistic.claimed job 4; ")
	s.must(f.Rollback(s.ctx))
	short := s.locks(pessimistic.Options{Observer: o, Hold: time.Nanosecond})
	s.want(short.Do(ctx, []pessimistic.Rows{accounts.Rows(1)}, func(ctx context.Context, _ T) error {
		<-ctx.Done()
		return nil
	}), pessimistic.ErrHoldBudget)
	want("pessimistic.locked account 1; pessimistic.hold_exceeded account 0; ")
	if !s.DB.Dialect().Capabilities.RowLocks {
		return
	}
	holder, other := s.begin(), s.begin()
	s.must(s.locks(pessimistic.Options{}).Lock(ctx, holder.Tx, accounts.Rows(1)))
	s.want(s.locks(pessimistic.Options{Observer: o, Wait: pessimistic.NoWait}).Lock(ctx, other.Tx, accounts.Rows(1)), pessimistic.ErrNotAvailable)
	want("pessimistic.not_available account 0; ")
}

func holds[T any](s *suite[T]) {
	o := &events{}
	l := s.locks(pessimistic.Options{Hold: 30 * time.Millisecond, Observer: o})
	ctx := holdfast.WithCorrelationID(s.ctx, "c-1")
	idle := func(ctx context.Context, _ T) { <-ctx.Done() }
	busy := func(ctx context.Context, t T) { // no timeout of a server before version 17 ends it
		for n := 0; ctx.Err() == nil && s.DB.Tx(t).QueryRow(s.ctx, "select 1").Scan(&n) == nil; {
			continue
		}
		<-ctx.Done()
	}
	for i, keep := range []func(context.Context, T){idle, idle, busy} {
		heed := i == 0
		err := l.Do(ctx, []pessimistic.Rows{accounts.Rows(1)}, func(ctx context.Context, t T) error {
			keep(ctx, t)
			if !errors.Is(context.Cause(ctx), pessimistic.ErrHoldBudget) {
				s.Errorf("the cause is %v", context.Cause(ctx))
			}
			_, err := s.DB.Tx(t).Exec(s.ctx, "update account set balance = 0 where id = 1")
			if heed || err != nil {
				return errors.Join(err, ctx.Err())
			}
			return nil
		})
		var e *pessimistic.HoldError
		if !errors.As(err, &e) || e.Budget != 30*time.Millisecond || holdfast.OutcomeOf(err) != holdfast.NotApplied {
			s.Errorf("got %v", err)
		}
		if got, want := o.take(s, "c-1"), "pessimistic.locked account 1; pessimistic.hold_exceeded account 0; "; got != want {
			s.Errorf("told %q, want %q", got, want)
		}
	}
	if n := s.number("select balance from account where id = 1"); n != 100 {
		s.Errorf("the balance is %d: what came too late was committed", n)
	}
	s.must(s.locks(pessimistic.Options{Hold: time.Minute}).Do(s.ctx, []pessimistic.Rows{accounts.Rows(1)}, func(ctx context.Context, t T) error {
		_, err := s.DB.Tx(t).Exec(ctx, "update account set balance = 5 where id = 1")
		return err
	}))
}

func holdsAlone[T any](s *suite[T]) {
	f := s.begin()
	s.must(s.locks(pessimistic.Options{Hold: 50 * time.Millisecond}).Lock(s.ctx, f.Tx, accounts.Rows(1)))
	// Nothing more comes of f.
	l := s.locks(pessimistic.Options{Wait: pessimistic.For(15 * time.Second)})
	s.must(l.Do(s.ctx, []pessimistic.Rows{accounts.Rows(1)}, func(context.Context, T) error { return nil }))
	if err := f.Commit(s.ctx); err == nil {
		s.Error("the transaction was committed after its end")
	}
}

func holdSettings[T any](s *suite[T]) {
	l := s.locks(pessimistic.Options{Hold: 30 * time.Second})
	show := func(t T, name, want string) {
		s.Helper()
		var got string
		s.must(s.DB.Tx(t).QueryRow(s.ctx, "select current_setting($1)", name).Scan(&got))
		if got != want {
			s.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	names := []string{"statement_timeout", "idle_in_transaction_session_timeout"}
	if s.number("select current_setting('server_version_num')::bigint") >= 170000 {
		names = []string{"transaction_timeout"}
	}
	for before, want := range map[string]string{"0": "30s", "5s": "5s", "1h": "30s"} {
		f := s.begin()
		for _, name := range names {
			_, err := s.DB.Tx(f.Tx).Exec(s.ctx, "set local "+name+" = '"+before+"'")
			s.must(err)
		}
		s.must(l.Lock(s.ctx, f.Tx, accounts.Rows(1)))
		for _, name := range names {
			show(f.Tx, name, want)
		}
		s.must(f.Rollback(s.ctx))
	}
	s.must(l.Do(s.ctx, []pessimistic.Rows{accounts.Rows(1)}, func(_ context.Context, t T) error {
		show(t, names[0], "30s")
		return nil
	}))
	for range 8 {
		f := s.begin()
		show(f.Tx, names[0], "0")
	}
}
