package lease_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/tx"
)

var _ lease.Schedule = cron.Schedule(nil)

// tally counts the runs of each slot.
type tally struct {
	mu    sync.Mutex // guards what follows
	slots map[time.Time]int
	runs  int
	full  chan struct{} // closed when enough slots have a run
	want  int
}

func newTally(want int) *tally {
	return &tally{slots: map[time.Time]int{}, full: make(chan struct{}), want: want}
}

func (c *tally) add(slot time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slots[slot]++
	if c.runs++; len(c.slots) == c.want && c.slots[slot] == 1 {
		close(c.full)
	}
}

// check wants one run for each slot.
func (c *tally) check(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for slot, n := range c.slots {
		if n != 1 {
			t.Errorf("slot %v was run %d times", slot, n)
		}
	}
}

func (c *tally) await(t *testing.T) {
	t.Helper()
	select {
	case <-c.full:
	case <-time.After(time.Minute):
		t.Fatalf("%d slots of %d were run in a minute", len(c.slots), c.want)
	}
}

// Two schedulers of robfig/cron, on PostgreSQL, with an expression as the schedule.
func TestRobfigCron(t *testing.T) {
	t.Parallel()
	db, runs := openDB(t, "pgx", testdb.Postgres(t), tx.PostgreSQL), newTally(3)
	if err := lease.Migrate(t.Context(), db, lease.Names{}); err != nil {
		t.Fatal(err)
	}
	schedule, err := cron.NewParser(cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow).Parse("* * * * * *")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		job := lease.NewJob(lease.NewSQL(db, lease.Names{}), "second", &lease.JobOptions{Schedule: schedule, Location: time.Local})
		c := cron.New()
		c.Schedule(schedule, cron.FuncJob(job.Cron(t.Context(), func(_ context.Context, s *lease.Slot) error {
			runs.add(s.At)
			return nil
		}, func(_ context.Context, err error) { t.Error(err) })))
		c.Start()
		defer func() { <-c.Stop().Done() }()
	}
	runs.await(t)
	runs.check(t)
}

// "@every" counts from when it is asked, so that two processes would mean different slots.
func TestFloatingScheduleIsRefused(t *testing.T) {
	t.Parallel()
	store := lease.NewSQL(sqliteDB(t), lease.Names{})
	floating, err := cron.ParseStandard("@every 1h")
	if err != nil {
		t.Fatal(err)
	}
	job := lease.NewJob(store, "a", &lease.JobOptions{Schedule: floating})
	if _, err := job.Due(t.Context()); !errors.Is(err, lease.ErrInvalid) {
		t.Errorf("got %v", err)
	}
	nightly, err := cron.ParseStandard("CRON_TZ=Europe/Berlin 0 2 * * *")
	if err != nil {
		t.Fatal(err)
	}
	job = lease.NewJob(store, "b", &lease.JobOptions{Schedule: nightly})
	if _, err := job.Due(t.Context()); err != nil {
		t.Error(err)
	}
}
