package pessimistictest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/pessimistic"
	"github.com/holdfast-go/holdfast/tx"
)

func stormRules[T any]() []rule[T] {
	return []rule[T]{
		{"no deadlock", "Random sets of rows of two tables, named in any order, never deadlock, nor do statements over them (B37d).", rowLocks, noDeadlock[T]},
		{"storm", "64 callers who Lock random pairs over several tables meet no deadlock and are never two at a row; one by one they do (C8).", rowLocks, storm[T]},
		{"transfers", "64 callers that transfer between random pairs lose nothing, and nobody waits in a circle (C8).", nil, transfers[T]},
	}
}

// seeded returns a source of random choices for each goroutine, and prints the seed.
func (s *suite[T]) seeded() func(worker int) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	s.Logf("seed %d", seed)
	return func(worker int) *rand.Rand { return rand.New(rand.NewPCG(seed, uint64(worker))) }
}

// deadlocks is an observer of tx.DB that counts deadlocks.
func deadlocks(n *atomic.Int64) holdfast.Observer {
	return holdfast.ObserverFunc(func(_ context.Context, e holdfast.Event) {
		var state interface{ SQLState() string }
		if errors.As(e.Err, &state) && state.SQLState() == "40P01" {
			n.Add(1)
		}
	})
}

func noDeadlock[T any](s *suite[T]) {
	random := s.seeded()
	var dead atomic.Int64
	db := s.DB.With(tx.Options{Isolation: s.level, Attempts: 1000}).Observed(deadlocks(&dead))
	l := pessimistic.New(db, nil)
	var workers sync.WaitGroup
	for w := range 16 {
		workers.Go(func() {
			r := random(w)
			for range 10 {
				var ids, names []any
				for _, i := range r.Perm(rows)[:1+r.IntN(4)] {
					ids, names = append(ids, int64(i+1)), append(names, fmt.Sprintf("s%d", i+1))
				}
				slices.Reverse(names)
				request := []pessimistic.Rows{accounts.Rows(ids...), stocks.Rows(names...)}
				if r.IntN(2) == 0 {
					slices.Reverse(request)
				}
				err := l.Do(s.ctx, request, func(ctx context.Context, t T) error {
					for _, id := range ids { // in an order of their own
						if _, err := db.Tx(t).Exec(ctx, "update account set balance = balance + 1 where id = $1", id); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil {
					s.Error(err)
				}
			}
		})
	}
	workers.Wait()
	if n := dead.Load(); n > 0 {
		s.Errorf("%d deadlocks", n)
	}
}

func transfers[T any](s *suite[T]) {
	random := s.seeded()
	var dead atomic.Int64
	db := s.DB.With(tx.Options{Isolation: s.level, Attempts: 1000}).Observed(deadlocks(&dead))
	l := pessimistic.New(db, nil)
	var workers sync.WaitGroup
	for w := range 64 {
		workers.Go(func() {
			r := random(w)
			for range 3 {
				pair := r.Perm(rows)[:2]
				if err := transfer(s.ctx, db, l, int64(pair[0]+1), int64(pair[1]+1), int64(r.IntN(80))); err != nil {
					s.Error(err)
				}
			}
		})
	}
	workers.Wait()
	if sum := s.number("select sum(balance) from account"); sum != 100*rows || dead.Load() > 0 {
		s.Errorf("the sum is %d, want %d, after %d deadlocks", sum, 100*rows, dead.Load())
	}
	if n := s.number("select count(*) from account where balance < 0"); n > 0 {
		s.Errorf("%d accounts are overdrawn", n)
	}
}

// transfer reads both balances under the lock, decides, and writes what it decided: absolute values.
func transfer[T any](ctx context.Context, db *tx.DB[T], l *pessimistic.Locks[T], from, to, amount int64) error {
	var id, balance int64
	balances := map[int64]int64{}
	both := accounts.Rows(from, to).Read([]string{"id", "balance"}, []any{&id, &balance}, func(int) error {
		balances[id] = balance
		return nil
	})
	return l.Do(ctx, []pessimistic.Rows{both}, func(ctx context.Context, t T) error {
		if balances[from] < amount {
			return nil
		}
		const set = "update account set balance = $2 where id = $1"
		return db.Defer(ctx, t,
			&tx.Stmt{SQL: set, Args: []any{from, balances[from] - amount}},
			&tx.Stmt{SQL: set, Args: []any{to, balances[to] + amount}})
	})
}

// A pick is one row of one of the tables.
type pick struct{ table, row int }

func (p pick) rows() pessimistic.Rows {
	switch p.table {
	case 0:
		return jobs.Table.Rows(p.row)
	case 1:
		return stocks.Rows(fmt.Sprintf("s%d", p.row))
	default:
		return accounts.Rows(p.row)
	}
}

// pair returns a pair in random order, and what asks for both: of one table in one Rows.
func pair(r *rand.Rand) (a, b pick, both []pessimistic.Rows) {
	a, b = pick{r.IntN(3), 1 + r.IntN(rows)}, pick{r.IntN(3), 1 + r.IntN(rows)}
	switch {
	case a == b:
		return pair(r)
	case a.table != b.table:
		return a, b, []pessimistic.Rows{a.rows(), b.rows()}
	case a.table == 1:
		return a, b, []pessimistic.Rows{stocks.Rows(fmt.Sprintf("s%d", a.row), fmt.Sprintf("s%d", b.row))}
	case a.table == 0:
		return a, b, []pessimistic.Rows{jobs.Table.Rows(a.row, b.row)}
	}
	return a, b, []pessimistic.Rows{accounts.Rows(a.row, b.row)}
}

// storm watches each row itself: whoever has its lock marks it, and finds the mark of nobody else. A history of the calls would say
// less: a checker looks for some order that explains it, and this sees the overlap. [transfers] adds what was read and written.
func storm[T any](s *suite[T]) {
	random := s.seeded()
	var dead atomic.Int64
	db := s.DB.With(tx.Options{Isolation: s.level, Attempts: 1000}).Observed(deadlocks(&dead))
	l := pessimistic.New(db, nil)
	// each runs fn for random pairs, by 64 goroutines, until it says that it is enough.
	each := func(fn func(n int, a, b pick, both []pessimistic.Rows) (more bool, err error)) {
		var workers sync.WaitGroup
		for w := range 64 {
			workers.Go(func() {
				r := random(w)
				for n := 1; ; n++ {
					a, b, both := pair(r)
					more, err := fn(n, a, b, both)
					if err != nil {
						s.Error(err)
					}
					if err != nil || !more {
						return
					}
				}
			})
		}
		workers.Wait()
	}
	var taken [3][rows + 1]atomic.Bool
	each(func(n int, a, b pick, both []pessimistic.Rows) (bool, error) {
		return n < 3, db.Do(s.ctx, func(ctx context.Context, t T) error {
			if err := l.Lock(ctx, t, both...); err != nil {
				return err
			}
			for _, p := range []pick{a, b} {
				if taken[p.table][p.row].Swap(true) {
					s.Errorf("two are at row %d of table %d", p.row, p.table)
				}
				defer taken[p.table][p.row].Store(false)
			}
			return nil
		})
	})
	if n := dead.Load(); n > 0 {
		s.Errorf("%d deadlocks", n)
	}
	// The control: one call for each row. It ends with the first deadlock.
	each(func(_ int, a, b pick, _ []pessimistic.Rows) (bool, error) {
		err := db.Do(s.ctx, func(ctx context.Context, t T) error {
			if err := l.Lock(ctx, t, a.rows()); err != nil {
				return err
			}
			return l.Lock(ctx, t, b.rows())
		})
		return dead.Load() == 0, err
	})
	if dead.Load() == 0 {
		s.Error("the control met no deadlock: this rule proves nothing")
	}
}
