package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tx"
)

// DefaultSlots is the table of [Job].
const DefaultSlots = "lease_slot"

// JobOptions set up a [Job]. The zero value is ready to use for [Job.Once] and [Job.OnceTx].
type JobOptions struct {
	// Lease sets up the lease that a run holds: how soon a run that died is followed by another is its TTL. Its observer is told
	// of slots, too.
	Lease Options
	// Schedule says which instants are slots. Default: none, and methods that need one say so.
	Schedule Schedule
	// Location is that of the times that Schedule is asked with, for a schedule without a time zone of its own. It must be the
	// same in all processes. Default: UTC.
	Location *time.Location
	// Missed says which slots that nobody began are begun late. It does not touch those whose run died. Default: [Latest].
	Missed Missed
	// Alone lets one slot run at a time: the next waits for the one before, and is missed if that takes too long. Default: a run
	// that takes longer than the period overlaps with the next, in another process.
	Alone bool
	// Attempts is how many runs of a slot may begin. One that kills its process each time is given up after that. Default: 10.
	Attempts int
	// Late is how late a slot may begin and is not missed, for [Skip]. Default: 1 min.
	Late time.Duration
	// Ahead is how far a slot may lie in the future by the server's clock, so that a clock which is far ahead does not run the
	// job of tomorrow. Default: 1 min.
	Ahead time.Duration
	// Window is how late a slot may begin at all. Default: 7 days.
	Window time.Duration
	// Keep is how long slots are remembered; at least Window. Default: 30 days, or Window if that is longer.
	Keep time.Duration
}

// Kinds of events of jobs. Name is the job, Key its slot.
const (
	// EventSlotBegun: a run began. Attempt counts those of the slot.
	EventSlotBegun holdfast.EventKind = "lease.slot_begun"
	// EventSlotEnded: a run ended. Elapsed is how long it took, Err why it failed.
	EventSlotEnded holdfast.EventKind = "lease.slot_ended"
	// EventSlotReopened: a slot that had failed may run again.
	EventSlotReopened holdfast.EventKind = "lease.slot_reopened"
	// EventSlotsSwept: old slots were removed. Count is how many.
	EventSlotsSwept holdfast.EventKind = "lease.slots_swept"
)

// A Job is work that is to be done once for each instant of its schedule, by whichever process comes first. What was done stands in
// a table, so that a process whose clock is behind does not do it again, however short the work was. It is safe for concurrent use.
type Job[T any] struct {
	name   string
	store  *SQL[T]
	leases *Leases[*Held]
	o      JobOptions
	sql    slotTexts
	err    error
}

// NewJob returns the job of name, which is the same in all processes. It is kept in the database of store, by the tables that
// [Migrate] makes. Nil options work. A name or options that cannot be used are reported by every method.
func NewJob[T any](store *SQL[T], name string, o *JobOptions) *Job[T] {
	j := &Job[T]{name: name, store: store}
	if o != nil {
		j.o = *o
	}
	j.o.Attempts = cmp.Or(j.o.Attempts, 10)
	j.o.Late = cmp.Or(j.o.Late, time.Minute)
	j.o.Ahead = cmp.Or(j.o.Ahead, time.Minute)
	j.o.Window = cmp.Or(j.o.Window, 7*24*time.Hour)
	j.o.Keep = cmp.Or(j.o.Keep, max(30*24*time.Hour, j.o.Window))
	if j.o.Location == nil {
		j.o.Location = time.UTC
	}
	j.leases = New(store, &j.o.Lease)
	j.o.Lease = j.leases.core.o
	j.sql = newSlotTexts(store.db.Dialect(), store.names)
	j.err = errors.Join(store.err, j.leases.core.err, checkJob(name), j.o.check())
	return j
}

// longestJob leaves room for the slot in the name of a lease.
const longestJob = longestName - 32

func checkJob(name string) error {
	reason := checkText(name, longestJob)
	if name == "" {
		reason = "is empty"
	}
	if reason != "" {
		return &InputError{Name: "the name of a job", Reason: reason}
	}
	return nil
}

func (o *JobOptions) check() error {
	for _, c := range []struct {
		wrong        bool
		name, reason string
	}{
		{min(o.Late, o.Ahead, o.Window, o.Keep) < 0, "JobOptions", "has a negative duration"},
		{o.Attempts < 0, "JobOptions.Attempts", "is negative"},
		{o.Missed < Skip || o.Missed > mostMissed, "JobOptions.Missed", fmt.Sprintf("is not Skip, Latest, or All up to %d", mostMissed)},
		{o.Keep < o.Window, "JobOptions.Keep", "is shorter than Window: a slot that is forgotten must not be begun again"},
		{o.Schedule != nil && !anchored(o.Schedule), "JobOptions.Schedule", "has no instants, or such that depend on when it is asked, " +
			"which differ between processes: use lease.Every, or a cron expression, instead of @every"},
	} {
		if c.wrong {
			return &InputError{Name: c.name, Reason: c.reason}
		}
	}
	return nil
}

// scheduled returns an error unless there is a schedule.
func (j *Job[T]) scheduled() error {
	if j.err == nil && j.o.Schedule == nil {
		return &InputError{Name: "JobOptions.Schedule", Reason: "is nil: say when the job is due, such as lease.Every(time.Hour)"}
	}
	return j.err
}

// Name is the name of the job.
func (j *Job[T]) Name() string { return j.name }

// Check reports, for the start of a service, whether the tables are there with their columns and the database takes writes. It does
// not ask for a schedule, which [Job.Once] does without. See [tx.CheckTables] for the errors.
func (j *Job[T]) Check(ctx context.Context) error {
	if j.err != nil {
		return j.err
	}
	if err := j.store.Check(ctx); err != nil {
		return err
	}
	return tx.CheckTables(ctx, j.store.db, tx.Table{
		Schema: j.store.names.Schema, Name: cmp.Or(j.store.names.Slots, DefaultSlots), Columns: []string{
			"job", "slot", "state", "lease", "token", "nonce", "attempts", "holder", "started_at", "finished_at", "error",
		},
	})
}

// lease is the name of that which a run of slot holds.
func (j *Job[T]) lease(slot time.Time) string {
	if j.o.Alone {
		return j.name
	}
	return j.name + "@" + slot.Format(slotFormat)
}

// slotFormat is how slots are named. They are told apart to the millisecond.
const slotFormat = "2006-01-02T15:04:05.000Z07:00"

func slotOf(at time.Time) time.Time { return at.UTC().Truncate(time.Millisecond) }

func (j *Job[T]) observe(ctx context.Context, kind holdfast.EventKind, s *Slot, elapsed time.Duration, err error) {
	holdfast.Observe(ctx, j.o.Lease.Observer, holdfast.Event{
		Kind: kind, Name: j.name, Key: s.At.Format(slotFormat), Elapsed: elapsed, Attempt: s.Attempt, Err: err,
	})
}
