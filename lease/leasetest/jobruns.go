package leasetest

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/lease"
)

func runRules[T any]() []jobRule[T] {
	return []jobRule[T]{
		{"one run", "of many processes that come for a slot, at once and later, one runs it", (*jobs[T]).oneRun},
		{"one instant", "a slot is an instant, in whatever zone and fraction of a millisecond it is told", (*jobs[T]).oneInstant},
		{"long run", "a run that outlives its TTL is the only one", (*jobs[T]).longRun},
		{"overlap", "slots of one job overlap, unless it runs alone", (*jobs[T]).overlap},
		{"failed", "a run that failed is not followed by another, and its error is stored and told", (*jobs[T]).failed},
		{"reopened", "a slot that failed runs again once it is reopened", (*jobs[T]).reopened},
		{"stopped", "a run that was stopped, panicked or asks for it is followed by another", (*jobs[T]).stopped},
		{"died", "a run that died is followed by another, and what it says later changes nothing", (*jobs[T]).died},
		{"given up", "a slot whose runs die again and again is given up", (*jobs[T]).givenUp},
		{"clocks", "a slot far in the future by the server's clock, or too long ago, is refused", (*jobs[T]).clocks},
		{"job input", "what cannot be a job is refused before anything is sent", (*jobs[T]).jobInput},
	}
}

func (s *jobs[T]) oneRun() {
	var runs atomic.Int32
	run := func(context.Context, *lease.Slot) error { runs.Add(1); return nil }
	together(16, func(int) {
		job := s.job("a", lease.JobOptions{})
		for range 3 {
			if _, err := job.Once(s.ctx, today(), run); err != nil {
				s.Error(err)
			}
		}
	})
	if n := runs.Load(); n != 1 {
		s.Fatalf("%d runs", n)
	}
	job := s.job("a", lease.JobOptions{})
	s.must(s.once(job, today(), false, never))
	s.must(s.once(job, today().Add(-time.Hour), true, fine))
	s.must(s.once(s.job("b", lease.JobOptions{}), today(), true, fine))
	if state, _ := s.state(s.job("b", lease.JobOptions{})); state != "done" {
		s.Fatalf("the state is %q", state)
	}
}

func (s *jobs[T]) oneInstant() {
	job := s.job("zone", lease.JobOptions{})
	slot := today().Add(300 * time.Microsecond)
	s.must(s.once(job, slot.In(time.FixedZone("east", 9*3600)), true, func(_ context.Context, s *lease.Slot) error {
		if !s.At.Equal(today()) || s.At.Location() != time.UTC {
			return errors.New(s.At.String())
		}
		return nil
	}))
	s.must(s.once(job, today().UTC(), false, never))
}

func (s *jobs[T]) longRun() {
	o := lease.JobOptions{Lease: steady}
	s.must(s.once(s.job("long", o), today(), true, func(ctx context.Context, _ *lease.Slot) error {
		outlive(steady.TTL, func() { s.must(s.once(s.job("long", o), today(), false, never)) })
		return context.Cause(ctx)
	}))
}

func (s *jobs[T]) overlap() {
	for _, alone := range []bool{false, true} {
		what := map[bool]string{false: "overlaps", true: "alone"}[alone]
		job, other := s.job(what, lease.JobOptions{Alone: alone}), s.job(what, lease.JobOptions{Alone: alone})
		next := today().Add(time.Minute)
		s.must(s.once(job, today(), true, func(context.Context, *lease.Slot) error {
			return s.once(other, next, !alone, fine)
		}))
		s.must(s.once(other, next, alone, fine))
	}
}

func (s *jobs[T]) failed() {
	job, broken := s.job("failed", lease.JobOptions{}), errors.New("broken\x00 "+strings.Repeat("é", 2000))
	s.want(s.once(job, today(), true, func(context.Context, *lease.Slot) error { return broken }), broken)
	err := s.once(job, today(), false, never)
	if s.want(err, lease.ErrSlot); !strings.Contains(err.Error(), "broken é") {
		s.Fatal(err)
	}
	if state, failure := s.state(job); state != "failed" || !strings.HasPrefix(failure, "broken é") || len(failure) > 1024 {
		s.Fatalf("%s: %s", state, failure)
	}
}

func (s *jobs[T]) reopened() {
	job := s.job("reopened", lease.JobOptions{Schedule: lease.Every(24 * time.Hour), Attempts: 2})
	s.want(job.Reopen(s.ctx, today()), lease.ErrSlot) // nobody began it
	var zombie *lease.Slot
	s.want(s.once(job, today(), true, func(_ context.Context, slot *lease.Slot) error { zombie = slot; return errBroken }), errBroken)
	s.must(job.Reopen(s.ctx, today()))
	s.want(job.Reopen(s.ctx, today()), lease.ErrSlot) // it has not failed since
	s.want(s.DB.Do(s.ctx, func(ctx context.Context, t T) error { return job.Finish(ctx, t, zombie) }), lease.ErrFenced)
	due, err := job.Due(s.ctx)
	if s.must(err); len(due) != 1 || !due[0].Equal(today()) {
		s.Fatalf("due are %v", due)
	}
	s.must(s.once(job, today(), true, attempt(1)))
	s.want(job.Reopen(s.ctx, today()), lease.ErrSlot) // it is done
	s.must(s.once(job, today(), false, never))
}

func (s *jobs[T]) stopped() {
	job := s.job("stopped", lease.JobOptions{})
	s.want(s.once(job, today(), true, func(context.Context, *lease.Slot) error { return lease.ErrAgain }), lease.ErrAgain)
	ctx, cancel := context.WithCancel(s.ctx)
	ran, err := job.Once(ctx, today(), func(ctx context.Context, _ *lease.Slot) error {
		cancel()
		<-ctx.Done()
		return context.Cause(ctx)
	})
	s.want(err, context.Canceled)
	if !ran {
		s.Fatal("not run after ErrAgain")
	}
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_, _ = job.Once(s.ctx, today(), func(context.Context, *lease.Slot) error { runtime.Goexit(); return nil })
	}()
	<-exited
	func() {
		defer func() { _ = recover() }()
		_, _ = job.Once(s.ctx, today(), func(context.Context, *lease.Slot) error { panic("broken") })
	}()
	if state, failure := s.state(job); state != "left" || failure == "" {
		s.Fatalf("%s: %s", state, failure)
	}
	s.must(s.once(job, today(), true, attempt(5)))
	s.must(s.once(job, today(), false, never))
}

func (s *jobs[T]) died() {
	job, other := s.job("died", lease.JobOptions{}), s.job("died", lease.JobOptions{})
	err := s.once(job, today(), true, func(_ context.Context, slot *lease.Slot) error {
		s.must(s.once(other, today(), false, never))
		s.kill(slot.Name())
		s.must(s.once(other, today(), true, attempt(2)))
		return errors.New("it was dead")
	})
	s.want(err, lease.ErrFenced)
	if state, failure := s.state(job); state != "done" || failure != "" {
		s.Fatalf("%s: %s", state, failure)
	}
}

func (s *jobs[T]) givenUp() {
	job := s.job("given up", lease.JobOptions{Attempts: 2})
	for range 2 {
		_ = s.once(job, today(), true, func(context.Context, *lease.Slot) error { return lease.ErrAgain })
	}
	var e *lease.SlotError
	if err := s.once(job, today(), false, never); !errors.As(err, &e) || e.Job != job.Name() || !e.Slot.Equal(today()) {
		s.Fatalf("got %v", err)
	}
	s.want(s.once(job, today(), false, never), lease.ErrSlot)
	if state, _ := s.state(job); state != "failed" {
		s.Fatal(state)
	}
}

func (s *jobs[T]) clocks() {
	job := s.job("clocks", lease.JobOptions{Ahead: time.Minute, Window: 48 * time.Hour})
	s.want(s.once(job, time.Now().Add(5*time.Minute), false, never), lease.ErrSlot)
	s.want(s.once(job, time.Now().Add(-49*time.Hour), false, never), lease.ErrSlot)
	s.must(s.once(job, time.Now().Add(30*time.Second), true, fine))
	s.must(s.once(job, time.Now().Add(-47*time.Hour), true, fine))
}

func (s *jobs[T]) jobInput() {
	for _, job := range []*lease.Job[T]{
		lease.NewJob(s.sql, "", nil),
		lease.NewJob(s.sql, strings.Repeat("x", 1000), nil),
		lease.NewJob(s.sql, "a", &lease.JobOptions{Lease: lease.Options{TTL: 1}}),
		lease.NewJob(s.sql, "a", &lease.JobOptions{Window: time.Hour, Keep: time.Minute}),
		lease.NewJob(s.sql, "a", &lease.JobOptions{Missed: 1001}),
		lease.NewJob(s.sql, "a", &lease.JobOptions{Attempts: -1}),
		lease.NewJob(s.sql, "a", &lease.JobOptions{Late: -1}),
		lease.NewJob(s.sql, "a", &lease.JobOptions{Schedule: lease.Every(0)}),
		lease.NewJob(s.sql, "a", &lease.JobOptions{Schedule: floating{}}),
	} {
		s.want(s.once(job, today(), false, never), lease.ErrInvalid)
		s.want(job.Check(s.ctx), lease.ErrInvalid)
	}
	job := s.job("a", lease.JobOptions{})
	s.want(s.once(job, today(), false, nil), lease.ErrInvalid)
	_, err := job.Due(s.ctx)
	s.want(err, lease.ErrInvalid)
	s.want(job.Run(s.ctx, fine, nil), lease.ErrInvalid)
	s.want(s.DB.Do(s.ctx, func(ctx context.Context, _ T) error {
		_, err := job.Once(ctx, today(), never)
		return err
	}), lease.ErrInvalid)
	s.must(job.Check(s.ctx))
}

// floating has other instants whenever it is asked.
type floating struct{}

func (floating) Next(t time.Time) time.Time { return t.Add(time.Hour) }
