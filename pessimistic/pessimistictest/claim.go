package pessimistictest

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/holdfast-go/holdfast/pessimistic"
	"github.com/holdfast-go/holdfast/tx"
)

func claimRules[T any]() []rule[T] {
	return []rule[T]{
		{"claims are apart", "Two claims at once take different jobs, in order, and nobody waits.", rowLocks, claimsApart[T]},
		{"a claim ends", "A job is free again when the transaction of its claim rolls back.", nil, claimEnds[T]},
		{"work", "Work hands out every job once, and says 0 without calling the closure when there is none.", nil, works[T]},
		{"claim rules", "Where, order and limit are the caller's.", nil, claimOrder[T]},
	}
}

// collect is a queue whose claims append to ids.
func collect(q pessimistic.Queue, limit int, ids *[]int64) pessimistic.Queue {
	id := new(int64)
	q.Limit = limit
	return q.Read([]string{"id"}, []any{id}, func(row int) error {
		if row == 0 {
			*ids = nil
		}
		*ids = append(*ids, *id)
		return nil
	})
}

func claimsApart[T any](s *suite[T]) {
	l := s.locks(pessimistic.Options{})
	first, second := s.begin(), s.begin()
	var a, b []int64
	n, err := l.Claim(s.ctx, first.Tx, collect(jobs, 3, &a))
	s.must(err)
	m, err := l.Claim(s.ctx, second.Tx, collect(jobs, 100, &b))
	s.must(err)
	if n != 3 || m != 7 || !slices.Equal(a, []int64{1, 2, 3}) || !slices.Equal(b, []int64{4, 5, 6, 7, 8, 9, 10}) {
		s.Fatalf("claimed %d %v and %d %v", n, a, m, b)
	}
	third := s.begin()
	if n, err := l.Claim(s.ctx, third.Tx, jobs); n != 0 || err != nil {
		s.Fatalf("claimed %d, %v", n, err)
	}
}

func claimEnds[T any](s *suite[T]) {
	l := s.locks(pessimistic.Options{})
	for range 2 {
		f := s.begin()
		var ids []int64
		n, err := l.Claim(s.ctx, f.Tx, collect(jobs, 2, &ids))
		s.must(err)
		if n != 2 || !slices.Equal(ids, []int64{1, 2}) {
			s.Fatalf("claimed %d %v", n, ids)
		}
		s.must(f.Rollback(s.ctx))
	}
	no := errors.New("no")
	n, err := l.Work(s.ctx, jobs, func(ctx context.Context, t T) error {
		_, err := s.DB.Tx(t).Exec(ctx, "delete from job")
		return errors.Join(err, no)
	})
	if s.want(err, no); n != 0 {
		s.Errorf("Work says %d of what was rolled back", n)
	}
	if n := s.number("select count(*) from job"); n != rows {
		s.Fatalf("%d jobs are left", n)
	}
}

func works[T any](s *suite[T]) {
	var mu sync.Mutex // guards done
	done := map[int64]int{}
	var workers sync.WaitGroup
	for range 6 {
		workers.Go(func() {
			for {
				var ids []int64
				n, err := s.locks(pessimistic.Options{}).Work(s.ctx, collect(jobs, 2, &ids), func(ctx context.Context, t T) error {
					for _, id := range ids {
						if err := s.DB.Defer(ctx, t, &tx.Stmt{SQL: "update job set state = 'done' where id = $1 and state = 'ready' returning 1", Args: []any{id}, MustAffect: errStolen}); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil {
					s.Error(err)
					return
				}
				if n == 0 {
					return
				}
				mu.Lock()
				for _, id := range ids {
					done[id]++
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	for id := int64(1); id <= rows; id++ {
		if done[id] != 1 {
			s.Errorf("job %d was done %d times", id, done[id])
		}
	}
	n, err := s.locks(pessimistic.Options{}).Work(s.ctx, jobs, func(context.Context, T) error {
		s.Error("the closure ran")
		return nil
	})
	if n != 0 || err != nil {
		s.Errorf("got %d, %v", n, err)
	}
}

var errStolen = errors.New("pessimistictest: somebody else did the job")

func claimOrder[T any](s *suite[T]) {
	s.exec("update job set state = 'other' where id > 7")
	q, f := jobs, s.begin()
	q.Order = "id desc"
	var ids []int64
	n, err := s.locks(pessimistic.Options{}).Claim(s.ctx, f.Tx, collect(q, 2, &ids))
	s.must(err)
	if n != 2 || !slices.Equal(ids, []int64{7, 6}) {
		s.Errorf("claimed %d %v", n, ids)
	}
	q = pessimistic.Queue{Table: jobs.Table}
	if n, err := s.locks(pessimistic.Options{}).Claim(s.ctx, f.Tx, q); n != 1 || err != nil {
		s.Errorf("claimed %d, %v", n, err)
	}
	q.Where = "id > $1"
	if n, err := s.locks(pessimistic.Options{}).Work(s.ctx, q, func(context.Context, T) error { return nil }); err == nil {
		s.Errorf("claimed %d by a placeholder without an argument", n)
	}
}
