package leasetest

import (
	"context"
	"errors"
	"strings"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/tx"
)

func lateRules[T any]() []jobRule[T] {
	return []jobRule[T]{
		{"late begin", "a process that was stopped after it took the lease does not begin a slot that another has begun", (*jobs[T]).lateBegin},
		{"end again", "the end of a run is written again if that fails, and no other run follows", (*jobs[T]).endAgain},
		{"end lost", "a run whose end cannot be written says that another may follow", (*jobs[T]).endLost},
	}
}

// behind returns a job whose statements outside transactions pass before first.
func (s *jobs[T]) behind(what string, before func(query string) error) *lease.Job[T] {
	db := s.DB.Wrapped(func(d tx.Driver[T]) tx.Driver[T] { return delayed[T]{d, before} })
	return lease.NewJob(lease.NewSQL(db, lease.Names{}), s.lease(what), &lease.JobOptions{Lease: lease.Options{TTL: short}})
}

type delayed[T any] struct {
	tx.Driver[T]

	before func(query string) error
}

func (d delayed[T]) Conn() tx.Conn { return delayedConn{d.Driver.Conn(), d.before} }

type delayedConn struct {
	tx.Conn

	before func(query string) error
}

func (c delayedConn) QueryRow(ctx context.Context, query string, args ...any) tx.Row {
	if err := c.before(query); err != nil {
		return failedRow{err}
	}
	return c.Conn.QueryRow(ctx, query, args...)
}

func (c delayedConn) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	if err := c.before(query); err != nil {
		return 0, err
	}
	return c.Conn.Exec(ctx, query, args...)
}

type failedRow struct{ err error }

func (r failedRow) Scan(...any) error { return r.err }

func (s *jobs[T]) lateBegin() {
	what := "late begin"
	arrived, proceed, begun := make(chan struct{}), make(chan struct{}), make(chan struct{})
	late := s.behind(what, func(query string) error {
		if strings.HasPrefix(query, `insert into "lease_slot"`) {
			close(arrived)
			<-proceed
		}
		return nil
	})
	result := make(chan error, 1)
	go func() {
		ran, err := late.Once(s.ctx, today(), never)
		if ran {
			err = errors.Join(errors.New("it ran"), err)
		}
		result <- err
	}()
	<-arrived
	s.kill(late.Name() + "@%")
	s.must(s.once(s.job(what, lease.JobOptions{}), today(), true, func(context.Context, *lease.Slot) error {
		close(begun)
		close(proceed)
		err := <-result
		if errors.Is(err, lease.ErrLost) { // it has noticed by the clock
			return nil
		}
		return err
	}))
	<-begun
	if state, _ := s.state(late); state != "done" {
		s.Fatal(state)
	}
}

func (s *jobs[T]) endAgain() {
	failures := 0
	job := s.behind("end again", func(query string) error {
		if strings.HasPrefix(query, `update "lease_slot"`) && failures < 2 {
			failures++
			return errors.New("broken")
		}
		return nil
	})
	s.must(s.once(job, today(), true, fine))
	if state, _ := s.state(job); failures != 2 || state != "done" {
		s.Fatalf("%d failures, %s", failures, state)
	}
}

func (s *jobs[T]) endLost() {
	broken := errors.New("broken")
	job := s.behind("end lost", func(query string) error {
		if strings.HasPrefix(query, `update "lease_slot"`) {
			return broken
		}
		return nil
	})
	err := s.once(job, today(), true, fine)
	var e *lease.EndError
	if !errors.As(err, &e) || !errors.Is(err, broken) || e.Job != job.Name() || !e.Slot.Equal(today()) {
		s.Fatalf("got %v", err)
	}
	s.must(s.once(s.job("end lost", lease.JobOptions{}), today(), true, attempt(2)))
}
