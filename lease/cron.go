package lease

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Cron returns a function for a scheduler of another make, such as cron.AddFunc of robfig/cron: each call runs fn for the slot that
// the caller came for, if nobody else does; see [Job.Once]. That slot is the one nearest to the local clock, at most
// JobOptions.Ahead in the future, since a timer of the scheduler may fire early. JobOptions.Schedule must be that of the scheduler,
// and Location its location. Errors are told to failed, which may be nil.
//
// A slot that every scheduler missed, or whose run died, stays undone: [Job.Run] has no such gap.
func (j *Job[T]) Cron(ctx context.Context, fn func(ctx context.Context, s *Slot) error, failed func(ctx context.Context, err error)) func() {
	return func() {
		slot, err := j.nearest(time.Now())
		if err == nil {
			_, err = j.Once(ctx, slot, fn)
		}
		if err != nil && failed != nil {
			failed(ctx, err)
		}
	}
}

// nearest is the slot that a timer fired for.
func (j *Job[T]) nearest(now time.Time) (time.Time, error) {
	if err := j.scheduled(); err != nil {
		return time.Time{}, err
	}
	now = now.In(j.o.Location)
	next := j.o.Schedule.Next(now)
	last := lastInstants(j.o.Schedule, now.Add(-j.o.Window), now, 1)
	if len(last) == 0 {
		return next, nil
	}
	if early := next.Sub(now); !next.IsZero() && early <= j.o.Ahead && early < now.Sub(last[0]) {
		return next, nil
	}
	return last[0], nil
}

// An Unlocker is gocron.Lock.
type Unlocker interface {
	Unlock(ctx context.Context) error
}

// A Locker is a gocron.Locker with L for gocron.Lock: the lock of a job is its slot, which stays taken after the unlock, so that a
// scheduler whose clock is behind does not run the job again, however short it was. It is safe for concurrent use.
type Locker[L Unlocker] struct {
	jobs map[string]func(ctx context.Context) (Unlocker, error)
}

// NewLocker returns the locker of jobs, which are found by their names in gocron:
//
//	locker, err := lease.NewLocker[gocron.Lock](report, cleanup)
//
// See [Job.Cron] for the slot that is meant. gocron does not tell a task that its lease was lost, nor a lock that its task failed:
// each slot is tried once. It returns [*InputError] if a job has no schedule or cannot be used, two have one name, or L is not an
// interface that has no method but Unlock.
func NewLocker[L Unlocker, T any](jobs ...*Job[T]) (*Locker[L], error) {
	if _, ok := Unlocker(&slotLock[T]{}).(L); !ok {
		return nil, &InputError{Name: "the type of the lock", Reason: "has more than the method Unlock: give gocron.Lock"}
	}
	l := &Locker[L]{jobs: map[string]func(context.Context) (Unlocker, error){}}
	for _, j := range jobs {
		if err := j.scheduled(); err != nil {
			return nil, err
		}
		if _, twice := l.jobs[j.name]; twice {
			return nil, &InputError{Name: fmt.Sprintf("the job %q", j.name), Reason: "is there twice"}
		}
		l.jobs[j.name] = j.lock
	}
	return l, nil
}

// Lock takes the slot that the job of name is due for. The error is a [*SlotError] if somebody else has run it, or runs it; see
// [Job.Once] for others.
func (l *Locker[L]) Lock(ctx context.Context, name string) (L, error) {
	var none L
	take, ok := l.jobs[name]
	if !ok {
		return none, &InputError{Name: fmt.Sprintf("the job %q", name), Reason: "is not one of NewLocker: name the job with gocron.WithName"}
	}
	lock, err := take(ctx)
	if err != nil {
		return none, err
	}
	return lock.(L), nil
}

// slotLock is the lock of a slot.
type slotLock[T any] struct {
	job  *Job[T]
	slot *Slot
}

func (j *Job[T]) lock(ctx context.Context) (Unlocker, error) {
	slot, err := j.nearest(time.Now())
	if err != nil {
		return nil, err
	}
	s, err := j.begin(ctx, slot)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return nil, &SlotError{j.name, slotOf(slot), "was run, or is run by somebody else"}
	}
	return &slotLock[T]{j, s}, nil
}

// Unlock ends the slot. It works on a context that has ended.
func (l *slotLock[T]) Unlock(ctx context.Context) error {
	return l.job.finish(ctx, l.slot, slotDone, nil)
}

// An Elector is a gocron.Elector: one scheduler runs all jobs, for as long as it has a lease. A job that is due while another takes
// over may run twice, or not at all; a [Locker] has no such gap. It is safe for concurrent use.
type Elector[H Handle] struct {
	leases *Leases[H]
	name   string

	mu   sync.Mutex // guards held, and lets one ask at a time
	held *H
}

// A Handle is an [Advisory] or a [Held].
type Handle interface {
	*Advisory | *Held
	Context() context.Context
	Check() error
	Release(ctx context.Context) (Released, error)
}

// NewElector returns one for the lease of name, which is the same for all schedulers.
func NewElector[H Handle](leases *Leases[H], name string) *Elector[H] {
	return &Elector[H]{leases: leases, name: name}
}

// IsLeader returns nil if this process has the lease. It takes it if it is free, and keeps it until [Elector.Resign] or its loss. It
// returns a [*HeldError] if somebody else has it, and the errors of [Leases.TryAcquire].
func (e *Elector[H]) IsLeader(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.held != nil && (*e.held).Context().Err() == nil && (*e.held).Check() == nil {
		return nil
	}
	e.release(ctx)
	h, err := e.leases.TryAcquire(ctx, e.name)
	if err != nil {
		return err
	}
	e.held = &h
	return nil
}

// Resign lets another process lead. Call it at shutdown, after the scheduler's.
func (e *Elector[H]) Resign(ctx context.Context) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.release(ctx)
}

func (e *Elector[H]) release(ctx context.Context) {
	if e.held != nil {
		_, _ = (*e.held).Release(ctx)
		e.held = nil
	}
}
