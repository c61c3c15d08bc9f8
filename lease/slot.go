package lease

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/jitter"
	"github.com/holdfast-go/holdfast/tx"
)

var (
	// ErrSlot: a slot cannot be run. See [SlotError].
	ErrSlot = errors.New("lease: the slot cannot be run")
	// ErrAgain is what a closure returns, or wraps, to leave its slot to another run, as one that was stopped does.
	ErrAgain = errors.New("lease: the slot is left to another run")
)

// A SlotError says why a slot cannot be run. It matches [ErrSlot].
type SlotError struct {
	// Job is the job, Slot the instant.
	Job  string
	Slot time.Time
	// Reason is why.
	Reason string
}

// Error says why.
func (e *SlotError) Error() string {
	return fmt.Sprintf("lease: the slot %s of %q %s", e.Slot.Format(slotFormat), e.Job, e.Reason)
}

// Is matches ErrSlot.
func (e *SlotError) Is(target error) bool { return target == ErrSlot }

// Outcome is NotApplied: the job was not run.
func (e *SlotError) Outcome() holdfast.Outcome { return holdfast.NotApplied }

// An EndError says that a run was through, and that its slot has not ended with it: the end could not be written, and another run
// may follow, or one has followed, and the error matches [ErrFenced].
type EndError struct {
	// Job is the job, Slot the instant.
	Job  string
	Slot time.Time
	// Err is why.
	Err error
}

// Error says why.
func (e *EndError) Error() string {
	return fmt.Sprintf("lease: the slot %s of %q was run, and has not ended with it: %v", e.Slot.Format(slotFormat), e.Job, e.Err)
}

// Unwrap returns Err.
func (e *EndError) Unwrap() error { return e.Err }

// Outcome is Unknown: the closure did its work, or some of it, and whether it is done again nobody knows.
func (e *EndError) Outcome() holdfast.Outcome { return holdfast.Unknown }

// A Slot is one run of a job: the lease of an instant of its schedule, with a fence for what it writes elsewhere.
type Slot struct {
	*Held

	// Job is the job.
	Job string
	// At is the instant, to the millisecond, in UTC. It is that of the schedule, and not when the run began.
	At time.Time
	// Attempt is 1, or more if runs of this slot died or were stopped.
	Attempt int

	begun time.Time
}

// begin takes slot for a run. It returns nil if the slot is done, or somebody runs it.
func (j *Job[T]) begin(ctx context.Context, slot time.Time) (*Slot, error) {
	if j.err != nil {
		return nil, j.err
	}
	if _, inside := j.store.db.Current(ctx); inside {
		return nil, &InputError{Name: "the context", Reason: "is that of a transaction, which a run cannot begin in: use Finish there"}
	}
	slot = slotOf(slot)
	state, failure, now, err := j.look(ctx, slot)
	switch {
	case err != nil:
		return nil, err
	case state == slotFailed:
		return nil, &SlotError{j.name, slot, "has failed, and is not run again before Job.Reopen: " + failure}
	case state != "" && state != slotRunning && state != slotLeft:
		return nil, nil
	case slot.After(now.Add(j.o.Ahead)):
		return nil, &SlotError{j.name, slot, fmt.Sprintf("is not due before %v have passed: is this machine's clock ahead?", slot.Sub(now))}
	case slot.Before(now.Add(-j.o.Window)):
		return nil, &SlotError{j.name, slot, "is older than JobOptions.Window"}
	}
	h, err := j.leases.TryAcquire(ctx, j.lease(slot))
	if errors.Is(err, ErrHeld) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s := &Slot{Held: h, Job: j.name, At: slot, begun: time.Now()}
	state, err = j.claim(ctx, s)
	if err == nil && state == slotFailed {
		err = &SlotError{j.name, slot, fmt.Sprintf("is given up: %d runs of it died", s.Attempt-1)}
	}
	if err == nil && state != "" {
		err = s.Check() // a holder of the past may have got in before the one of now
	}
	if err != nil || state == "" {
		_, _ = s.Release(ctx)
		return nil, err
	}
	j.observe(ctx, EventSlotBegun, s, 0, nil)
	return s, nil
}

// look asks for the state of a slot, why it failed, and the time.
func (j *Job[T]) look(ctx context.Context, slot time.Time) (state, failure string, now time.Time, err error) {
	err = j.store.again(ctx, func() error {
		var ms int64
		err := j.store.db.Conn().QueryRow(ctx, j.sql.look, j.name, slot.UnixMilli()).Scan(&ms, &state, &failure)
		now = time.UnixMilli(ms).UTC()
		return err
	})
	return state, failure, now, err
}

// claim writes that s begins. The state is empty if it must not.
func (j *Job[T]) claim(ctx context.Context, s *Slot) (state string, err error) {
	err = j.store.again(ctx, func() error {
		err := j.store.db.Conn().QueryRow(ctx, j.sql.begin, j.name, s.At.UnixMilli(), s.term.Name, s.term.Token, s.term.Nonce,
			j.o.Lease.Holder, j.o.Attempts).Scan(&state, &s.Attempt)
		if errors.Is(err, tx.ErrNoRows) {
			state = ""
			return nil
		}
		return err
	})
	return state, err
}

// finish ends s as state says, unless that is empty, and frees its lease. failure is what came of the run. It returns the failure,
// with what went wrong here.
func (j *Job[T]) finish(ctx context.Context, s *Slot, state string, failure error) error {
	err := failure
	if state != "" {
		switch ended := j.end(ctx, s, state, describe(failure)); {
		case ended == nil, errors.Is(ended, ErrFenced) && errors.Is(failure, ErrFenced):
		case failure == nil:
			err = &EndError{s.Job, s.At, ended}
		default:
			err = errors.Join(failure, &EndError{s.Job, s.At, ended})
		}
	}
	j.observe(ctx, EventSlotEnded, s, time.Since(s.begun), err)
	_, _ = s.Release(context.WithoutCancel(ctx)) // its deadline is that of the work
	return err
}

// stateAfter is that of a slot whose closure returned failure. A run that was stopped leaves it to another, and so does one that the
// database failed.
func (j *Job[T]) stateAfter(ctx context.Context, s *Slot, failure error) string {
	if failure == nil {
		return slotDone
	}
	if ctx.Err() != nil || s.Context().Err() != nil || errors.Is(failure, ErrAgain) {
		return slotLeft
	}
	switch j.store.db.Classify(failure) {
	case tx.Retryable, tx.NotSent, tx.Lost, tx.ReadOnly:
		return slotLeft
	default:
		return slotFailed
	}
}

// longestFailure is how many bytes of an error are stored.
const longestFailure = 1024

// describe is an error as it is stored, nil without one.
func describe(err error) *string {
	if err == nil {
		return nil
	}
	text := strings.ToValidUTF8(strings.ReplaceAll(err.Error(), "\x00", ""), "?")
	text = strings.ToValidUTF8(text[:min(len(text), longestFailure)], "")
	return &text
}

// end writes the state of s, again and again while the lease is held, since another run would follow otherwise; TTL is the longest.
func (j *Job[T]) end(ctx context.Context, s *Slot, state string, text *string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), j.o.Lease.TTL)
	defer cancel()
	for try := 1; ; try++ {
		var n int64
		err := j.store.again(ctx, func() (err error) {
			n, err = j.store.db.Conn().Exec(ctx, j.sql.end, j.endArgs(s, state, text)...)
			return err
		})
		switch {
		case err == nil && n == 1:
			return nil
		case err == nil:
			return &FencedError{Fence: s.fence}
		case s.Check() != nil, ctx.Err() != nil:
			return err
		}
		timer := time.NewTimer(jitter.Full(5*time.Millisecond, time.Second, try))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

func (j *Job[T]) endArgs(s *Slot, state string, text *string) []any {
	return []any{j.name, s.At.UnixMilli(), s.term.Nonce, state, text}
}
