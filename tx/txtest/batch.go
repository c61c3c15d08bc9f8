package txtest

import (
	"context"
	"errors"
	"slices"

	"github.com/holdfast-go/holdfast/tx"
)

const (
	balanceSQL = "select balance from account where id = $1"
	fenceSQL   = "update account set balance = balance + 1 where id = $1 returning 1"
)

var errFence = errors.New("txtest: the fence matched nothing")

func batchRules[T any]() []rule[T] {
	return []rule[T]{
		{name: "batch", rule: "A batch runs in order, scans first rows, and counts.", check: batches[T]},
		{name: "batch takes each row", rule: "A statement with Each takes every row, wherever it travels, and its error ends the batch.", check: batchTakesRows[T]},
		{name: "batch stops", rule: "A batch stops at the first statement that fails and returns its error.", check: batchStops[T]},
		{name: "lead", rule: "Lead statements run with BEGIN, new ones for each attempt, before the closure.", check: leads[T]},
		{name: "lead fails", rule: "A lead statement that fails leaves nothing open, and the closure does not run.", check: leadFails[T], conns: 1},
		{name: "lead joins", rule: "The lead of a joined plan runs inside its savepoint.", check: leadJoins[T]},
		{
			name: "joined lead fails", rule: "The lead of a joined plan that fails is undone with its savepoint, and that one alone.",
			check: joinedLeadFails[T],
		},
		{
			name: "must affect", rule: "A statement that must affect a row and affects none fails with its own error, wherever it travels.",
			check: mustAffect[T],
		},
		{
			name: "fence by constraint", rule: "A fence without RETURNING is broken by a unique constraint, wherever it travels.",
			check: fenceByConstraint[T],
		},
		{name: "placeholders", rule: "Placeholders are numbered: any order, any repetition, and never inside quotes.", check: placeholders[T]},
		{name: "rows", rule: "Query reads all rows and then the transaction goes on; QueryRow answers ErrNoRows.", check: readsRows[T]},
	}
}

func batches[T any](f *fixture[T]) {
	var before, after int64
	stmts := []*tx.Stmt{
		{SQL: balanceSQL, Args: []any{1}, Dest: []any{&before}},
		{SQL: "update account set balance = balance + 1"},
		{SQL: balanceSQL, Args: []any{1}, Dest: []any{&after}},
		{SQL: balanceSQL, Args: []any{3}, Dest: []any{new(int64)}},
		{SQL: fenceSQL, Args: []any{1}, MustAffect: errFence},
		{SQL: "update account set balance = 0 where id = 3"},
	}
	f.must(f.DB.Do(f.ctx, func(ctx context.Context, t T) error { return f.DB.Tx(t).Batch(ctx, stmts...) }))
	if before != 100 || after != 101 {
		f.Errorf("read %d and %d, want 100 and 101", before, after)
	}
	for i, want := range []struct {
		found    bool
		affected int64
	}{{true, 1}, {false, 2}, {true, 1}, {false, 0}, {false, 1}, {false, 0}} {
		if s := stmts[i]; s.Found != want.found || s.Affected != want.affected {
			f.Errorf("statement %d: found %v, affected %d, want %v, %d", i, s.Found, s.Affected, want.found, want.affected)
		}
	}
}

func batchTakesRows[T any](f *fixture[T]) {
	var id int64
	var got []int64
	stmt := func(each func() error) *tx.Stmt {
		return &tx.Stmt{SQL: "select id from account where id < $1 order by id desc", Args: []any{3}, Dest: []any{&id}, Each: each}
	}
	take := func() error {
		got = append(got, id)
		return nil
	}
	want := func(s *tx.Stmt, ids ...int64) {
		f.Helper()
		if !slices.Equal(got, ids) || !s.Found || s.Affected != int64(len(ids)) {
			f.Errorf("took %v, found %v, affected %d, want %v", got, s.Found, s.Affected, ids)
		}
		got = nil
	}
	var lead *tx.Stmt
	f.must(f.DB.Run(f.ctx, tx.Plan[T]{
		Lead: func() []*tx.Stmt {
			lead = stmt(take)
			return []*tx.Stmt{lead}
		},
		Work: func(ctx context.Context, t T) error {
			want(lead, 2, 1)
			s, none := stmt(take), stmt(take)
			none.Args = []any{0}
			f.must(f.DB.Tx(t).Batch(ctx, none, s))
			want(s, 2, 1)
			if none.Found || none.Affected != 0 {
				f.Errorf("a statement without rows found %v, %d", none.Found, none.Affected)
			}
			s = stmt(func() error { return errFence })
			if err := f.DB.Tx(t).Batch(ctx, s); !errors.Is(err, errFence) {
				f.Errorf("got %v, want the error of Each", err)
			}
			return f.DB.Tx(t).Batch(ctx, &tx.Stmt{SQL: addSQL, Args: []any{1, 1}}) // the transaction is as it was
		},
	}))
	f.wantBalance(1, 101)
	foreign, err := f.Begin(f.ctx)
	f.must(err)
	s := stmt(take)
	f.must(f.DB.Tx(foreign).Batch(f.ctx, s))
	want(s, 2, 1)
	f.must(f.Rollback(f.ctx, foreign))
}

func batchStops[T any](f *fixture[T]) {
	last := &tx.Stmt{SQL: "update account set balance = 0"}
	err := f.DB.Do(f.ctx, func(ctx context.Context, t T) error {
		return f.DB.Tx(t).Batch(ctx,
			&tx.Stmt{SQL: addSQL, Args: []any{1, 1}},
			&tx.Stmt{SQL: "insert into account (id, balance) values ($1, $2)", Args: []any{1, 0}},
			last)
	})
	if aborted := f.wantAborted(err, nil); aborted.Class != tx.Unique || last.Affected != 0 {
		f.Errorf("the error is %v and the last statement affected %d rows, want a unique violation and 0", err, last.Affected)
	}
	f.wantBalance(1, 100)
}

func leads[T any](f *fixture[T]) {
	var leads []*tx.Stmt
	balance, runs := int64(0), 0
	f.must(f.DB.Run(f.ctx, tx.Plan[T]{
		Lead: func() []*tx.Stmt {
			leads = []*tx.Stmt{
				{SQL: fenceSQL, Args: []any{1}, MustAffect: errFence},
				{SQL: balanceSQL, Args: []any{1}, Dest: []any{&balance}},
				{SQL: balanceSQL, Args: []any{3}, Dest: []any{new(int64)}},
			}
			return leads
		},
		Work: func(ctx context.Context, t T) error {
			runs++
			if leads[0].Affected != 1 || !leads[1].Found || balance != 101 || leads[2].Found {
				f.Errorf("the lead found %+v, %+v, %+v and the balance %d", *leads[0], *leads[1], *leads[2], balance)
			}
			if runs == 1 {
				return f.conflict(ctx, t)
			}
			return nil
		},
	}))
	if runs != 2 {
		f.Errorf("the closure ran %d times, want 2", runs)
	}
	f.wantBalance(1, 101)
}

func leadFails[T any](f *fixture[T]) {
	for _, bad := range []*tx.Stmt{
		{SQL: fenceSQL, Args: []any{3}, MustAffect: errFence},
		{SQL: "insert into account (id, balance) values (1, 0)"},
		{SQL: "this is not SQL"},
	} {
		f.wantAborted(f.DB.Run(f.ctx, tx.Plan[T]{
			Lead: func() []*tx.Stmt { return []*tx.Stmt{{SQL: addSQL, Args: []any{1, 1}}, bad} },
			Work: func(context.Context, T) error {
				f.Errorf("the closure ran after %q", bad.SQL)
				return nil
			},
		}), bad.MustAffect)
		f.wantIdlePool()
		f.wantBalance(1, 100)
	}
}

func leadJoins[T any](f *fixture[T]) {
	f.must(f.DB.Do(f.ctx, func(ctx context.Context, t T) error {
		err := f.DB.Run(ctx, tx.Plan[T]{
			Lead: func() []*tx.Stmt { return []*tx.Stmt{{SQL: addSQL, Args: []any{1, 1}}} },
			Work: func(ctx context.Context, t T) error {
				if got, err := f.balance(ctx, t, 1); got != 101 || err != nil {
					f.Errorf("the closure reads %d, %v, want what its lead wrote, 101", got, err)
				}
				return errRefused
			},
		})
		if !errors.Is(err, errRefused) {
			f.Errorf("the joined plan gives %v, want %v", err, errRefused)
		}
		return f.add(ctx, t, 2, 1)
	}))
	f.wantBalance(1, 100)
	f.wantBalance(2, 101)
}

func joinedLeadFails[T any](f *fixture[T]) {
	f.must(f.DB.Do(f.ctx, func(ctx context.Context, t T) error {
		f.must(f.DB.Nested(ctx, t, func(ctx context.Context, t T) error {
			f.must(f.add(ctx, t, 1, 1))
			if err := f.DB.Run(ctx, tx.Plan[T]{
				Lead: func() []*tx.Stmt {
					return []*tx.Stmt{{SQL: addSQL, Args: []any{1, 10}}, {SQL: "insert into account (id, balance) values (1, 0)"}}
				},
				Work: func(context.Context, T) error { return nil },
			}); f.DB.Classify(err) != tx.Unique {
				f.Errorf("the joined plan gives %v, want a unique violation", err)
			}
			return f.add(ctx, t, 2, 1)
		}))
		return nil
	}))
	f.wantBalance(1, 101)
	f.wantBalance(2, 101)
}

func mustAffect[T any](f *fixture[T]) {
	fence := func(id int) *tx.Stmt { return &tx.Stmt{SQL: fenceSQL, Args: []any{id}, MustAffect: errFence} }
	f.wantAborted(f.DB.Do(f.ctx, func(ctx context.Context, t T) error {
		f.must(f.add(ctx, t, 2, 1))
		return f.DB.Tx(t).Batch(ctx, fence(1), fence(3))
	}), errFence)
	f.wantAborted(f.DB.Do(f.ctx, func(ctx context.Context, t T) error {
		f.must(f.add(ctx, t, 2, 1))
		return f.DB.Defer(ctx, t, fence(1), fence(3))
	}), errFence)
	f.wantBalance(1, 100)
	f.wantBalance(2, 100)
	matched := fence(1)
	f.must(f.DB.Do(f.ctx, func(ctx context.Context, t T) error { return f.DB.Defer(ctx, t, matched) }))
	if matched.Affected != 1 {
		f.Errorf("the fence affected %d rows, want 1", matched.Affected)
	}
	f.wantBalance(1, 101)
}

func fenceByConstraint[T any](f *fixture[T]) {
	fence := func(id int) *tx.Stmt {
		return &tx.Stmt{SQL: "insert into account (id, balance) values ($1, 7)", Args: []any{id}, MustAffect: errFence}
	}
	for _, send := range []func(ctx context.Context, t T, stmts ...*tx.Stmt) error{
		func(ctx context.Context, t T, stmts ...*tx.Stmt) error { return f.DB.Tx(t).Batch(ctx, stmts...) },
		f.DB.Defer,
	} {
		f.wantAborted(f.DB.Do(f.ctx, func(ctx context.Context, t T) error {
			f.must(f.add(ctx, t, 2, 1))
			return send(ctx, t, fence(3), fence(1))
		}), errFence)
	}
	f.wantBalance(2, 100)
	for id, send := range map[int]func(ctx context.Context, t T, stmts ...*tx.Stmt) error{
		3: func(ctx context.Context, t T, stmts ...*tx.Stmt) error { return f.DB.Tx(t).Batch(ctx, stmts...) },
		4: f.DB.Defer,
	} {
		kept := fence(id)
		f.must(f.DB.Do(f.ctx, func(ctx context.Context, t T) error { return send(ctx, t, kept) }))
		if kept.Affected != 1 {
			f.Errorf("the fence affected %d rows, want 1", kept.Affected)
		}
		f.wantBalance(id, 7)
	}
}

func placeholders[T any](f *fixture[T]) {
	var a, b, c, d string
	f.must(f.DB.Do(f.ctx, func(ctx context.Context, t T) error {
		return f.DB.Tx(t).QueryRow(ctx, `select cast($2 as text), cast($1 as text), '$1' as "$2", cast($2 as text)`, "one", "two").
			Scan(&a, &b, &c, &d)
	}))
	if a != "two" || b != "one" || c != "$1" || d != "two" {
		f.Errorf("got %q, %q, %q, %q", a, b, c, d)
	}
}

func readsRows[T any](f *fixture[T]) {
	f.must(f.DB.Do(f.ctx, func(ctx context.Context, t T) error {
		rows, err := f.DB.Tx(t).Query(ctx, "select id, balance from account order by id")
		f.must(err)
		var ids, id, balance int64
		for rows.Next() {
			f.must(rows.Scan(&id, &balance))
			ids = ids*10 + id
		}
		rows.Close()
		rows.Close() // twice is safe
		f.must(rows.Err())
		if ids != 12 {
			f.Errorf("read the ids %d, want 12", ids)
		}
		if err := f.DB.Tx(t).QueryRow(ctx, balanceSQL, 3).Scan(&balance); !errors.Is(err, tx.ErrNoRows) {
			f.Errorf("a row that is not there gives %v, want %v", err, tx.ErrNoRows)
		}
		return f.add(ctx, t, 1, 1)
	}))
	f.wantBalance(1, 101)
}
