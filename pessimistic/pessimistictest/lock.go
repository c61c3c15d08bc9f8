package pessimistictest

import (
	"context"
	"errors"
	"maps"
	"slices"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/pessimistic"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/txtest"
)

func lockRules[T any]() []rule[T] {
	return []rule[T]{
		{"rows in order", "The rows of a table are locked in the order of the database, whatever the request's.", rowLocks, rowsInOrder[T]},
		{"tables in order", "Tables are locked by name, whatever the order of the request.", rowLocks, tablesInOrder[T]},
		{"until the end", "Rows are locked until the transaction of the caller ends, and nothing of it is committed.", rowLocks, untilTheEnd[T]},
		{"missing", "A row that does not exist is reported, by its key, and the transaction goes on with the others locked.", nil, missing[T]},
		{"duplicates", "A key counts once, and two keys that are one to the database are one.", nil, duplicates[T]},
		{"read", "Columns are read in the order of locking, and again when the transaction runs again.", nil, reads[T]},
		{"fresh", "What is read under the lock is what the holder before committed.", rowLocks, readsFresh[T]},
		{"do", "Do commits what the closure returns nil for, deferred statements too, and rolls back otherwise.", nil, does[T]},
		{"do joins", "Do inside a closure takes a savepoint, and its rows stay locked with the transaction.", nil, joins[T]},
		{"the writer", "Without row locks, a transaction that began deferred becomes the writer before it reads (B37f).", noRowLocks, becomesWriter[T]},
	}
}

// lockWith locks rows in a transaction of its own that has begun, and returns its process and a channel for the result.
func (s *suite[T]) lockWith(l *pessimistic.Locks[T], rows ...pessimistic.Rows) (f txtest.Foreign[T], pid int32, done chan error) {
	s.Helper()
	f = s.begin()
	pid, done = s.pid(f.Tx), make(chan error, 1)
	go func() { done <- l.Lock(s.ctx, f.Tx, rows...) }()
	return f, pid, done
}

func rowsInOrder[T any](s *suite[T]) {
	const held = 5
	l := s.locks(pessimistic.Options{})
	holder := s.begin()
	s.must(l.Lock(s.ctx, holder.Tx, accounts.Rows(held)))
	var keys []any
	for _, i := range s.seeded()(0).Perm(rows) {
		keys = append(keys, i+1)
	}
	f, pid, done := s.lockWith(l, accounts.Rows(keys...))
	s.waits(pid)
	for i := 1; i <= rows; i++ {
		s.wantFree(i > held, accounts.Rows(i))
	}
	s.must(holder.Rollback(s.ctx))
	s.must(<-done)
	for i := 1; i <= rows; i++ {
		s.wantFree(false, accounts.Rows(i))
	}
	s.must(f.Rollback(s.ctx))
}

func tablesInOrder[T any](s *suite[T]) {
	l := s.locks(pessimistic.Options{})
	holder := s.begin()
	s.must(l.Lock(s.ctx, holder.Tx, accounts.Rows(1)))
	f, pid, done := s.lockWith(l, stocks.Rows("s1"), accounts.Rows(1))
	s.waits(pid) // for the account, which comes first
	s.wantFree(true, stocks.Rows("s1"))
	s.must(holder.Rollback(s.ctx))
	s.must(<-done)
	s.wantFree(false, stocks.Rows("s1"))
	s.must(f.Rollback(s.ctx))
}

func untilTheEnd[T any](s *suite[T]) {
	f := s.begin()
	s.must(s.locks(pessimistic.Options{}).Lock(s.ctx, f.Tx, accounts.Rows(1), stocks.Rows("s1", "s2")))
	for _, r := range []pessimistic.Rows{accounts.Rows(1), stocks.Rows("s1"), stocks.Rows("s2")} {
		s.wantFree(false, r)
	}
	s.wantFree(true, accounts.Rows(2), stocks.Rows("s3"))
	_, err := s.DB.Tx(f.Tx).Exec(s.ctx, "update account set balance = 1 where id = 1")
	s.must(err)
	s.must(f.Rollback(s.ctx))
	s.wantFree(true, accounts.Rows(1), stocks.Rows("s1", "s2"))
	if n := s.number("select balance from account where id = 1"); n != 100 {
		s.Fatalf("the balance is %d: somebody committed", n)
	}
}

func missing[T any](s *suite[T]) {
	l := s.locks(pessimistic.Options{})
	check := func(err error) {
		s.Helper()
		var m *pessimistic.MissingError
		if !errors.As(err, &m) || m.Table != "account" || !slices.Equal(m.Keys, []any{77, 99}) || !errors.Is(err, pessimistic.ErrMissing) ||
			holdfast.OutcomeOf(err) != holdfast.NotApplied {
			s.Fatalf("got %v", err)
		}
	}
	f := s.begin()
	check(l.Lock(s.ctx, f.Tx, accounts.Rows(77, 1, 99)))
	s.usable(f.Tx)
	if s.DB.Dialect().Capabilities.RowLocks {
		s.wantFree(false, accounts.Rows(1))
	}
	s.must(f.Rollback(s.ctx))
	check(l.Do(s.ctx, []pessimistic.Rows{accounts.Rows(77, 1, 99)}, func(context.Context, T) error {
		s.Error("the closure ran")
		return nil
	}))
}

func duplicates[T any](s *suite[T]) {
	l, o := s.locks(pessimistic.Options{}), &events{}
	s.must(s.DB.Do(s.ctx, func(ctx context.Context, t T) error {
		return s.locks(pessimistic.Options{Observer: o}).Lock(ctx, t, accounts.Rows(3, 1, 3, 1, 2))
	}))
	if got, want := o.take(s, ""), "pessimistic.locked account 3; "; got != want {
		s.Errorf("got %q, want %q", got, want)
	}
	kind, twin := "text collate nocase", "A"
	if s.DB.Dialect() == tx.PostgreSQL {
		kind, twin = "character(3)", "a "
	}
	s.exec("create table alike (id " + kind + " primary key)")
	s.exec("insert into alike values ('a')")
	alike := pessimistic.Table{Name: "alike"}
	s.must(s.DB.Do(s.ctx, func(ctx context.Context, t T) error { return l.Lock(ctx, t, alike.Rows("a", twin)) }))
	err := s.DB.Do(s.ctx, func(ctx context.Context, t T) error { return l.Lock(ctx, t, alike.Rows("a", twin, "b")) })
	var m *pessimistic.MissingError
	if !errors.As(err, &m) || !slices.Equal(m.Keys, []any{"b"}) {
		s.Errorf("got %v", err)
	}
}

func reads[T any](s *suite[T]) {
	var id, balance int64
	var order []int64
	runs, conflict := 0, &conflictError{}
	got := accounts.Rows(int64(3), int64(1)).Read([]string{"id", "balance"}, []any{&id, &balance}, func(row int) error {
		if row == 0 {
			order = nil
		}
		order = append(order, id, balance)
		return nil
	})
	s.must(s.locks(pessimistic.Options{}).Do(s.ctx, []pessimistic.Rows{got}, func(context.Context, T) error {
		if runs++; runs == 1 {
			return conflict
		}
		return nil
	}))
	if !slices.Equal(order, []int64{1, 100, 3, 100}) || runs != 2 {
		s.Fatalf("read %v in %d runs", order, runs)
	}
	f := s.begin()
	no := errors.New("no")
	bad := accounts.Rows(1).Read([]string{"balance"}, []any{&balance}, func(int) error { return no })
	s.want(s.locks(pessimistic.Options{}).Lock(s.ctx, f.Tx, bad), no)
	s.usable(f.Tx)
	s.must(f.Rollback(s.ctx))
}

// A conflictError is what a database says that could not serialize.
type conflictError struct{}

func (*conflictError) Error() string    { return "a conflict" }
func (*conflictError) SQLState() string { return "40001" }

func readsFresh[T any](s *suite[T]) {
	l := s.locks(pessimistic.Options{})
	holder := s.begin()
	s.must(l.Lock(s.ctx, holder.Tx, accounts.Rows(1)))
	balance, done, pid := int64(0), make(chan error, 1), make(chan int32, 10)
	go func() {
		done <- s.DB.Do(s.ctx, func(ctx context.Context, t T) error {
			var p int32
			if err := s.DB.Tx(t).QueryRow(ctx, "select pg_backend_pid()").Scan(&p); err != nil {
				return err
			}
			pid <- p
			return l.Lock(ctx, t, accounts.Rows(1).Read([]string{"balance"}, []any{&balance}, func(int) error { return nil }))
		})
	}()
	s.waits(<-pid)
	_, err := s.DB.Tx(holder.Tx).Exec(s.ctx, "update account set balance = 42 where id = 1")
	s.must(err)
	s.must(holder.Commit(s.ctx))
	if s.must(<-done); balance != 42 {
		s.Fatalf("read %d, want 42", balance)
	}
}

func does[T any](s *suite[T]) {
	l, no := s.locks(pessimistic.Options{}), errors.New("no")
	add := func(result error) error {
		return l.Do(s.ctx, []pessimistic.Rows{accounts.Rows(1, 2)}, func(ctx context.Context, t T) error {
			err := s.DB.Defer(ctx, t, &tx.Stmt{SQL: "update account set balance = balance + 1 where id = 2"})
			s.must(err)
			_, err = s.DB.Tx(t).Exec(ctx, "update account set balance = balance + 1 where id = 1")
			return errors.Join(err, result)
		})
	}
	s.must(add(nil))
	s.want(add(no), no)
	if n := s.number("select balance from account where id = 1") + s.number("select balance from account where id = 2"); n != 202 {
		s.Fatalf("the balances sum up to %d, want 202", n)
	}
}

func joins[T any](s *suite[T]) {
	l, no := s.locks(pessimistic.Options{}), errors.New("no")
	s.must(s.DB.Do(s.ctx, func(ctx context.Context, t T) error {
		for id, result := range map[int]error{1: nil, 2: no} {
			err := l.Do(ctx, []pessimistic.Rows{accounts.Rows(id)}, func(ctx context.Context, t T) error {
				_, err := s.DB.Tx(t).Exec(ctx, "update account set balance = 0 where id = $1", id)
				return errors.Join(err, result)
			})
			if !errors.Is(err, result) {
				s.Errorf("got %v, want %v", err, result)
			}
		}
		if s.DB.Dialect().Capabilities.RowLocks {
			s.wantFree(false, accounts.Rows(1))
		}
		return nil
	}))
	got := map[int64]int64{1: s.number("select balance from account where id = 1"), 2: s.number("select balance from account where id = 2")}
	if !maps.Equal(got, map[int64]int64{1: 0, 2: 100}) {
		s.Fatalf("got %v", got)
	}
}

func becomesWriter[T any](s *suite[T]) {
	first, second := s.begin(), s.begin()
	var n int64
	s.must(s.locks(pessimistic.Options{}).Lock(s.ctx, first.Tx, accounts.Rows(1).Read([]string{"balance"}, []any{&n}, func(int) error { return nil })))
	_, err := s.DB.Tx(second.Tx).Exec(s.ctx, "pragma busy_timeout = 1")
	s.must(err)
	err = s.locks(pessimistic.Options{}).Lock(s.ctx, second.Tx, stocks.Rows("s9")) // another row of another table
	if s.DB.Classify(err) != tx.Retryable {
		s.Fatalf("got %v, want that the database is busy", err)
	}
	s.must(second.Rollback(s.ctx))
	_, err = s.DB.Tx(first.Tx).Exec(s.ctx, "update account set balance = $1 where id = 1", n-1)
	s.must(err)
	s.must(first.Commit(s.ctx))
}
