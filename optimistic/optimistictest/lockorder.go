package optimistictest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/optimistic"
	"github.com/holdfast-go/holdfast/tx"
)

// batchLocksInOrder stops a batch in the middle, by a row that somebody else holds, and looks at which rows it has by then.
// The rows lie in no order, the items come in another, and the planner has its ways changed.
func batchLocksInOrder[T any](s *suite[T]) {
	if s.DB.Dialect() != tx.PostgreSQL {
		return // one writer needs no order
	}
	const rows, held = 24, 12
	name := func(i int) string { return fmt.Sprintf("row-%02d", i) }
	var behind []string
	for i := held + 1; i < rows; i++ {
		behind = append(behind, name(i))
	}
	for _, planner := range []string{"seqscan = on", "seqscan = off", "hashjoin = off", "nestloop = off", "mergejoin = off"} {
		s.exec("delete from doc")
		for _, i := range rand.Perm(rows) {
			s.make(name(i), 0)
		}
		var items []optimistic.Item
		for _, i := range rand.Perm(rows) {
			items = append(items, optimistic.Item{Want: at(name(i), 0), Set: title("batch")})
		}
		other := s.begin()
		_, err := s.DB.Tx(other.Tx).Exec(s.ctx, "select from doc where id = $1 for update", name(held))
		s.must(err)
		pid, done := make(chan int, 1), make(chan error, 1)
		go func() { done <- s.batchWith(planner, items, pid) }()
		s.awaitLock(<-pid)
		if free := s.free(); !slices.Equal(free, behind) {
			s.Errorf("%s: it waits for row %d and has left free %v", planner, held, free)
		}
		s.must(other.Rollback(s.ctx))
		s.must(<-done)
		s.is(name(0), "batch", 1)
	}
}

// batchWith writes a batch with a way of the planner switched on or off, and tells which backend does.
func (s *suite[T]) batchWith(planner string, items []optimistic.Item, pid chan<- int) error {
	return s.DB.Do(s.ctx, func(ctx context.Context, t T) error {
		if _, err := s.DB.Tx(t).Exec(ctx, "set local enable_"+planner); err != nil {
			return err
		}
		var n int
		if err := s.DB.Tx(t).QueryRow(ctx, "select pg_backend_pid()").Scan(&n); err != nil {
			return err
		}
		pid <- n
		results, err := s.docs.SetManyTx(ctx, t, items)
		for _, r := range results {
			if r.Err != nil {
				return r.Err
			}
		}
		return err
	})
}

// awaitLock waits until a backend waits for a lock.
func (s *suite[T]) awaitLock(pid int) {
	s.Helper()
	for waits := false; !waits; {
		s.must(s.DB.Conn().QueryRow(s.ctx,
			"select exists (select from pg_stat_activity where pid = $1 and wait_event_type = 'Lock')", pid).Scan(&waits))
	}
}

// free returns the rows that nobody has locked.
func (s *suite[T]) free() []string {
	s.Helper()
	var text string
	s.must(s.DB.Conn().QueryRow(s.ctx, "with free as (select id from doc for update skip locked) "+
		"select coalesce(string_agg(id, ' ' order by id), '') from free").Scan(&text))
	return strings.Fields(text)
}
