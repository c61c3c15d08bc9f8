package pessimistictest

import (
	"context"
	"errors"
	"strings"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/pessimistic"
	"github.com/holdfast-go/holdfast/tx"
)

func edgeRules[T any]() []rule[T] {
	return []rule[T]{
		{"bad input", "Bad names and keys are refused by a typed error, and the transaction goes on.", nil, badInput[T]},
		{"odd keys", "Keys of any text, length and type are found or missing, and never SQL.", nil, oddKeys[T]},
		{"no table", "A table or a column that is not there is told as such.", nil, noTable[T]},
		{"check", "Check names a table, a column or a key with which rows cannot be locked.", nil, checks[T]},
		{"privileges", "A user who may read and update rows can lock them, and Check says so.", rowLocks, privileges[T]},
		{"nothing to lock", "Without rows nothing is locked and the closure runs.", nil, nothing[T]},
	}
}

func badInput[T any](s *suite[T]) {
	l := s.locks(pessimistic.Options{})
	many := make([]any, 1<<14+1)
	for i := range many {
		many[i] = i
	}
	one, each := 1, func(int) error { return nil }
	for what, r := range map[string][]pessimistic.Rows{
		"no table":           {pessimistic.Table{}.Rows(1)},
		"long table":         {pessimistic.Table{Name: strings.Repeat("x", 10<<20)}.Rows(1)},
		"NUL in schema":      {pessimistic.Table{Name: "account", Schema: "a\x00"}.Rows(1)},
		"not UTF-8":          {pessimistic.Table{Name: "account", Key: "\xff"}.Rows(1)},
		"bad column":         {accounts.Rows(1).Read([]string{""}, []any{new(int)}, each)},
		"column without use": {accounts.Rows(1).Read([]string{"id"}, nil, each)},
		"column, no call":    {accounts.Rows(1).Read([]string{"id"}, []any{new(int)}, nil)},
		"nil":                {accounts.Rows(nil)},
		"pointer":            {accounts.Rows(&one)},
		"types":              {accounts.Rows(1, int64(2))},
		"func":               {accounts.Rows(func() {})},
		"key of two columns": {accounts.Rows([]any{1, 2})},
		"struct":             {accounts.Rows(struct{ A, B int }{1, 2})},
		"NUL":                {stocks.Rows("a\x00")},
		"key not UTF-8":      {stocks.Rows("\xff")},
		"too many":           {accounts.Rows(many...)},
		"table twice":        {accounts.Rows(1), accounts.Rows(2)},
	} {
		f := s.begin()
		for _, err := range []error{l.Lock(s.ctx, f.Tx, r...), l.Do(s.ctx, r, func(context.Context, T) error { return nil })} {
			var e *pessimistic.InputError
			if !errors.As(err, &e) || !errors.Is(err, pessimistic.ErrInvalid) || holdfast.OutcomeOf(err) != holdfast.NotApplied || len(err.Error()) > 500 {
				s.Errorf("%s: got %v", what, err)
			}
		}
		s.usable(f.Tx)
		s.must(f.Rollback(s.ctx))
	}
	s.want(l.Do(s.ctx, nil, nil), tx.ErrNilFunc)
	_, err := l.Work(s.ctx, jobs, nil)
	s.want(err, tx.ErrNilFunc)
	bad := jobs
	bad.Limit = -1
	f := s.begin()
	_, err = l.Claim(s.ctx, f.Tx, bad)
	s.want(err, pessimistic.ErrInvalid)
	_, err = l.Work(s.ctx, pessimistic.Queue{}, func(context.Context, T) error { return nil })
	s.want(err, pessimistic.ErrInvalid)
	if s.DB.Dialect().Capabilities.AdvisoryLocks {
		s.want(l.Advisory(s.ctx, f.Tx, "n", make([]string, 1<<10+1)...), pessimistic.ErrInvalid)
		s.must(l.Advisory(s.ctx, f.Tx, "\x00", "", "\xff", strings.Repeat("x", 10<<20)))
	}
}

func oddKeys[T any](s *suite[T]) {
	long := strings.Repeat("x", 10<<20)
	f, l := s.begin(), s.locks(pessimistic.Options{})
	for _, key := range []string{"", "'; drop table account; --", `$1"`, long} {
		var m *pessimistic.MissingError
		if err := l.Lock(s.ctx, f.Tx, stocks.Rows("s1", key)); !errors.As(err, &m) || len(m.Keys) != 1 || m.Keys[0] != key || len(err.Error()) > 500 {
			s.Errorf("%.30q: got %.200v", key, err)
		}
	}
	s.usable(f.Tx)
	s.must(f.Rollback(s.ctx))
	kind := "blob"
	if s.DB.Dialect() == tx.PostgreSQL {
		kind = "bytea"
	}
	s.exec("create table bytes (id " + kind + " primary key)")
	s.exec("insert into bytes values ($1)", []byte{0, 1})
	f = s.begin()
	s.must(l.Lock(s.ctx, f.Tx, pessimistic.Table{Name: "bytes"}.Rows([]byte{0, 1}, []byte{0, 1})))
	s.must(f.Rollback(s.ctx))
	if s.DB.Dialect() == tx.PostgreSQL {
		s.exec("create table moments (id timestamptz primary key)")
		s.exec("insert into moments values ('2026-01-02T03:04:05Z')")
		at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		f = s.begin()
		s.must(l.Lock(s.ctx, f.Tx, pessimistic.Table{Name: "moments"}.Rows(at, at.In(time.FixedZone("x", 3600)))))
	}
}

func noTable[T any](s *suite[T]) {
	l := s.locks(pessimistic.Options{})
	none, wrong := pessimistic.Table{Name: "nothing"}, pessimistic.Table{Name: accounts.Name, Key: "no"}
	for _, err := range []error{
		l.Do(s.ctx, []pessimistic.Rows{none.Rows(1)}, func(context.Context, T) error { return nil }),
		l.Do(s.ctx, []pessimistic.Rows{wrong.Rows(1)}, func(context.Context, T) error { return nil }),
		l.Do(s.ctx, []pessimistic.Rows{accounts.Rows(1).Read([]string{"no"}, []any{new(int)}, func(int) error { return nil })}, func(context.Context, T) error { return nil }),
		s.DB.Do(s.ctx, func(ctx context.Context, t T) error { return l.Lock(ctx, t, none.Rows(1)) }),
		s.DB.Do(s.ctx, func(ctx context.Context, t T) error {
			_, err := l.Claim(ctx, t, pessimistic.Queue{Table: none})
			return err
		}),
	} {
		if !errors.Is(err, tx.ErrNotMigrated) || holdfast.OutcomeOf(err) != holdfast.NotApplied {
			s.Errorf("got %v", err)
		}
	}
}

func checks[T any](s *suite[T]) {
	l := s.locks(pessimistic.Options{})
	s.must(l.Check(s.ctx))
	s.must(l.Check(s.ctx, accounts, stocks, jobs.Table))
	s.exec("create table part (a integer not null, b integer not null, primary key (a, b))")
	for what, c := range map[string]struct {
		table pessimistic.Table
		err   error
	}{
		"table":          {pessimistic.Table{Name: "nothing"}, tx.ErrNotMigrated},
		"column":         {pessimistic.Table{Name: "account", Key: "no"}, tx.ErrNotMigrated},
		"key":            {pessimistic.Table{Name: "account", Key: "balance"}, tx.ErrColumn},
		"part of a key":  {pessimistic.Table{Name: "part", Key: "a"}, tx.ErrColumn},
		"name":           {pessimistic.Table{Name: "a\x00"}, pessimistic.ErrInvalid},
		"no name at all": {pessimistic.Table{}, pessimistic.ErrInvalid},
	} {
		if err := l.Check(s.ctx, accounts, c.table); !errors.Is(err, c.err) || holdfast.OutcomeOf(err) != holdfast.NotApplied {
			s.Errorf("%s: got %v", what, err)
		}
	}
}

func privileges[T any](s *suite[T]) {
	l, undo := s.locks(pessimistic.Options{}), errors.New("undo")
	for grant, allowed := range map[string]bool{"select, update": true, "select": false} {
		s.want(s.DB.Do(s.ctx, func(ctx context.Context, t T) error {
			role := s.DB.Dialect().Quote(s.namespace() + " teller") // it goes with the transaction
			for _, query := range []string{
				"create role " + role, "grant usage on schema " + s.DB.Dialect().Quote(s.namespace()) + " to " + role,
				"grant " + grant + " on account to " + role, "set local role " + role,
			} {
				_, err := s.DB.Tx(t).Exec(ctx, query)
				s.must(err)
			}
			check, lock := l.Check(ctx, accounts), l.Lock(ctx, t, accounts.Rows(1))
			if errors.Is(check, tx.ErrPrivilege) == allowed || (check == nil) != allowed || (lock == nil) != allowed {
				s.Errorf("with %s: Check says %v, Lock %v", grant, check, lock)
			}
			return undo
		}), undo)
	}
}

func nothing[T any](s *suite[T]) {
	ran := 0
	fn := func(context.Context, T) error { ran++; return nil }
	l := s.locks(pessimistic.Options{})
	s.must(l.Do(s.ctx, nil, fn))
	s.must(l.Do(s.ctx, []pessimistic.Rows{accounts.Rows()}, fn))
	s.must(s.DB.Do(s.ctx, func(ctx context.Context, t T) error { return l.Lock(ctx, t, accounts.Rows()) }))
	if ran != 2 {
		s.Errorf("the closure ran %d times", ran)
	}
}
