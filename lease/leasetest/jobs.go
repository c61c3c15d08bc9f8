package leasetest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/txtest"
)

// A jobRule is one promise of a [lease.Job].
type jobRule[T any] struct {
	name string
	text string
	test func(s *jobs[T])
}

// RunJobs checks every promise of [lease.Job] on a database that open makes for it, in parallel, at each isolation level that the
// database has.
func RunJobs[T any](t *testing.T, open func(t testing.TB) txtest.Backend[T]) {
	for _, r := range slices.Concat(runRules[T](), lateRules[T](), txRules[T](), dueRules[T]()) {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			t.Cleanup(cancel)
			h := open(t)
			for _, level := range levels(h.DB) {
				s := &jobs[T]{guards: &guards[T]{Backend: h, level: level}}
				s.DB = h.DB.With(tx.Options{Isolation: level})
				s.sql = lease.NewSQL(s.DB, lease.Names{})
				s.suite = &suite{T: t, ctx: ctx, store: s.sql}
				s.must(lease.Migrate(ctx, s.DB, lease.Names{}))
				s.exec(`create table if not exists done (what text not null)`)
				r.test(s)
				if t.Failed() {
					t.Fatalf("at isolation %q; the rule: %s", level, r.text)
				}
			}
		})
	}
}

func levels[T any](db *tx.DB[T]) []tx.Isolation {
	if db.Dialect().Capabilities.IsolationLevels {
		return []tx.Isolation{tx.ReadCommitted, tx.RepeatableRead, tx.Serializable}
	}
	return []tx.Isolation{tx.DefaultIsolation}
}

// jobs is what a rule of jobs works with.
type jobs[T any] struct {
	*guards[T]

	sql *lease.SQL[T]
}

// job is that of one rule at one level, as one more process has it.
func (s *jobs[T]) job(what string, o lease.JobOptions) *lease.Job[T] {
	if o.Lease.TTL == 0 {
		o.Lease.TTL = long
	}
	return lease.NewJob(s.sql, s.lease(what), &o)
}

// today is a slot that is not too old, the same for all who ask on one day.
func today() time.Time { return time.Now().Truncate(24 * time.Hour) }

// once runs job, and wants it to run or not.
func (s *jobs[T]) once(job *lease.Job[T], slot time.Time, want bool, fn func(ctx context.Context, s *lease.Slot) error) error {
	s.Helper()
	ran, err := job.Once(s.ctx, slot, fn)
	if ran != want {
		s.Fatalf("slot %v of %q: ran is %v, want %v (%v)", slot, job.Name(), ran, want, err)
	}
	return err
}

// fine is a closure with nothing to do.
func fine(context.Context, *lease.Slot) error { return nil }

func never(_ context.Context, s *lease.Slot) error { return fmt.Errorf("slot %v was run", s.At) }

// attempt is a closure that wants to be the n-th run.
func attempt(n int) func(context.Context, *lease.Slot) error {
	return func(_ context.Context, s *lease.Slot) error {
		if s.Attempt != n {
			return fmt.Errorf("attempt %d, want %d", s.Attempt, n)
		}
		return nil
	}
}

// kill lets the leases of runs, by a pattern of their names, be those of a process that died long ago.
func (s *jobs[T]) kill(pattern string) {
	s.Helper()
	past := "0"
	if s.DB.Dialect() == tx.PostgreSQL {
		past = "timestamptz 'epoch'"
	}
	s.exec("update lease set expires_at = "+past+" where name like $1", pattern)
}

// state reads a slot's row.
func (s *jobs[T]) state(job *lease.Job[T]) (state, failure string) {
	s.Helper()
	row := s.DB.Conn().QueryRow(s.ctx, "select state, coalesce(error, '') from lease_slot where job = $1", job.Name())
	s.must(row.Scan(&state, &failure))
	return state, failure
}

func (s *jobs[T]) count(query string, args ...any) (n int) {
	s.Helper()
	s.must(s.DB.Conn().QueryRow(s.ctx, query, args...).Scan(&n))
	return n
}
