package leasetest

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/tx"
)

func txRules[T any]() []jobRule[T] {
	return []jobRule[T]{
		{"one commit", "of many that come for a slot, one commits the slot and its writes", (*jobs[T]).oneCommit},
		{"rolled back", "what a run wrote that failed is undone, and the slot has ended", (*jobs[T]).rolledBack},
		{"open", "while its transaction is open nobody else begins the slot, also if the lease has run out", (*jobs[T]).open},
		{"finish", "a run ends its slot in a transaction of the caller, and leaves it if that is rolled back", (*jobs[T]).finish},
		{"finish late", "a run that another has followed commits nothing", (*jobs[T]).finishLate},
		{"finish older", "a transaction that began before the run, and cannot see it, is told so", (*jobs[T]).finishOlder},
	}
}

func (s *jobs[T]) oneCommit() {
	write := func(ctx context.Context, t T) error { return s.write(ctx, t, s.lease("commit")) }
	together(8, func(int) {
		for range 2 {
			if _, err := s.job("commit", lease.JobOptions{}).OnceTx(s.ctx, today(), write); err != nil {
				s.Error(err)
			}
		}
	})
	s.wrote(s.lease("commit"), 1)
	if state, _ := s.state(s.job("commit", lease.JobOptions{})); state != "done" {
		s.Fatal(state)
	}
}

func (s *jobs[T]) rolledBack() {
	job, broken := s.job("undone", lease.JobOptions{}), errors.New("broken")
	ran, err := job.OnceTx(s.ctx, today(), func(ctx context.Context, t T) error {
		s.must(s.write(ctx, t, "undone"))
		return broken
	})
	s.want(err, broken)
	s.wrote("undone", 0)
	if state, _ := s.state(job); !ran || state != "failed" {
		s.Fatalf("ran %v, %s", ran, state)
	}
	_, err = job.OnceTx(s.ctx, today().AddDate(0, 0, -1), func(context.Context, T) error { return tx.ErrDiscard })
	if err == nil {
		s.Fatal("ErrDiscard of a closure is success")
	}
	_, err = job.OnceTx(s.ctx, today(), nil)
	s.want(err, tx.ErrNilFunc)
}

// open kills the lease before the transaction, on SQLite too, where nothing else can be written meanwhile.
func (s *jobs[T]) open() {
	if !s.DB.Dialect().Capabilities.ConcurrentWriters {
		return // its one writer keeps others out
	}
	job, other := s.job("open", lease.JobOptions{}), s.job("open", lease.JobOptions{})
	ran, err := job.OnceTx(s.ctx, today(), func(ctx context.Context, t T) error {
		s.kill(job.Name() + "@%")
		s.must(s.once(other, today(), false, never))
		return s.write(ctx, t, job.Name())
	})
	s.must(err)
	if !ran {
		s.Fatal("not run")
	}
	s.wrote(job.Name(), 1)
	s.must(s.once(other, today(), false, never))
}

func (s *jobs[T]) finish() {
	job, other := s.job("finish", lease.JobOptions{}), s.job("finish", lease.JobOptions{})
	undo := errors.New("undo")
	s.want(s.once(job, today(), true, func(ctx context.Context, slot *lease.Slot) error {
		s.want(s.DB.Do(ctx, func(ctx context.Context, t T) error {
			s.must(job.Finish(ctx, t, slot))
			return undo
		}), undo)
		return lease.ErrAgain
	}), lease.ErrAgain)
	s.want(s.once(other, today(), true, func(ctx context.Context, slot *lease.Slot) error {
		foreign, err := s.Begin(ctx)
		s.must(err)
		s.must(other.Finish(ctx, foreign.Tx, slot))
		s.must(other.Finish(ctx, foreign.Tx, slot))
		s.must(s.write(ctx, foreign.Tx, job.Name()))
		s.must(foreign.Commit(ctx))
		return undo // after the commit: the slot is done
	}), undo)
	s.wrote(job.Name(), 1)
	if state, failure := s.state(job); state != "done" || failure != "" {
		s.Fatalf("%s: %s", state, failure)
	}
	s.must(s.once(job, today(), false, never))
	s.want(s.DB.Do(s.ctx, func(ctx context.Context, t T) error { return job.Finish(ctx, t, nil) }), lease.ErrInvalid)
	s.want(s.DB.Do(s.ctx, func(ctx context.Context, t T) error {
		return job.Finish(ctx, t, &lease.Slot{Job: "another"})
	}), lease.ErrInvalid)
}

func (s *jobs[T]) finishOlder() {
	if s.level != tx.RepeatableRead && s.level != tx.Serializable {
		return // every statement sees all that was committed
	}
	job := s.job("older", lease.JobOptions{})
	s.want(s.once(job, today(), true, func(context.Context, *lease.Slot) error { return lease.ErrAgain }), lease.ErrAgain)
	s.want(s.DB.Do(s.ctx, func(ctx context.Context, t T) (err error) {
		s.must(s.write(ctx, t, job.Name()))
		s.want(s.once(job, today(), true, func(_ context.Context, slot *lease.Slot) error {
			err = job.Finish(ctx, t, slot)
			return lease.ErrAgain
		}), lease.ErrAgain)
		return err
	}), lease.ErrSnapshot)
	s.wrote(job.Name(), 0)
}

func (s *jobs[T]) finishLate() {
	job, other := s.job("late", lease.JobOptions{}), s.job("late", lease.JobOptions{})
	s.want(s.once(job, today(), true, func(_ context.Context, slot *lease.Slot) error {
		s.kill(slot.Name())
		_, err := other.OnceTx(s.ctx, today(), func(ctx context.Context, t T) error { return s.write(ctx, t, job.Name()) })
		s.must(err)
		return s.DB.Do(s.ctx, func(ctx context.Context, t T) error {
			if err := job.Finish(ctx, t, slot); err != nil {
				return err
			}
			return s.write(ctx, t, job.Name())
		})
	}), lease.ErrFenced)
	s.wrote(job.Name(), 1)
}
