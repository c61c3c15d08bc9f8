package leasetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/lease"
)

func dueRules[T any]() []jobRule[T] {
	return []jobRule[T]{
		{"first seen", "a job begins with the first slot after it was first seen", (*jobs[T]).firstSeen},
		{"missed", "missed slots are due as the policy says, the oldest first, and each is run once", (*jobs[T]).missed},
		{"left behind", "a slot whose run died is due, whatever the policy says of those that nobody began", (*jobs[T]).leftBehind},
		{"tick", "a slot that fails does not keep others from being run", (*jobs[T]).tick},
		{"run", "processes that run a job together run each of its slots once, and miss none", (*jobs[T]).runs},
		{"sweep", "old slots and their leases are removed, and cannot be begun again", (*jobs[T]).sweeps},
		{"job tables", "the table of slots has whatever name and schema the caller wants", (*jobs[T]).jobTables},
	}
}

const day = 24 * time.Hour

// daily is a job that is due at midnight, by the options of a rule.
func (s *jobs[T]) daily(what string, o lease.JobOptions) *lease.Job[T] {
	o.Schedule, o.Window = lease.Every(day), 20*day
	return s.job(what, o)
}

// due wants the slots that were so many days ago.
func (s *jobs[T]) due(job *lease.Job[T], ago ...int) {
	s.Helper()
	want := []time.Time{}
	for _, n := range ago {
		want = append(want, today().AddDate(0, 0, -n).UTC())
	}
	got, err := job.Due(s.ctx)
	s.must(err)
	if !slices.Equal(got, want) {
		s.Fatalf("due are %v, want %v", got, want)
	}
}

func (s *jobs[T]) firstSeen() {
	job := s.daily("first", lease.JobOptions{Missed: lease.All(5)})
	s.due(job)
	s.due(job)
	if n := s.count("select count(*) from lease_slot where job = $1", job.Name()); n != 1 {
		s.Fatalf("%d rows", n)
	}
	s.must(s.once(job, today().AddDate(0, 0, -3), true, fine))
	s.due(job, 2, 1) // today's was passed when it was seen
}

func (s *jobs[T]) missed() {
	for what, c := range map[string]struct {
		o   lease.JobOptions
		ago []int
	}{
		"latest":    {lease.JobOptions{}, []int{0}},
		"skip":      {lease.JobOptions{Missed: lease.Skip, Late: time.Nanosecond}, nil},
		"skip late": {lease.JobOptions{Missed: lease.Skip, Late: day}, []int{0}},
		"all":       {lease.JobOptions{Missed: lease.All(3)}, []int{2, 1, 0}},
		"all first": {lease.JobOptions{Missed: lease.All(100)}, []int{4, 3, 2, 1, 0}},
	} {
		job := s.daily(what, c.o)
		s.must(s.once(job, today().AddDate(0, 0, -5), true, fine))
		s.due(job, c.ago...)
		var got []time.Time
		ran, err := job.Tick(s.ctx, func(_ context.Context, s *lease.Slot) error { got = append(got, s.At); return nil })
		s.must(err)
		if ran != len(c.ago) || !slices.IsSortedFunc(got, time.Time.Compare) || len(got) != ran {
			s.Fatalf("%s: %d were run: %v", what, ran, got)
		}
		s.due(job)
	}
}

func (s *jobs[T]) leftBehind() {
	job := s.daily("left", lease.JobOptions{Missed: lease.Skip, Late: time.Nanosecond})
	_ = s.once(job, today().AddDate(0, 0, -9), true, func(context.Context, *lease.Slot) error { return lease.ErrAgain })
	_ = s.once(job, today().AddDate(0, 0, -8), true, func(_ context.Context, slot *lease.Slot) error {
		s.due(job, 9)
		s.kill(slot.Name())
		s.due(job, 9, 8)
		return nil
	})
	s.due(job, 9)
	ran, err := job.Tick(s.ctx, attempt(2))
	s.must(err)
	if ran != 1 {
		s.Fatalf("%d were run", ran)
	}
	s.due(job)
}

func (s *jobs[T]) tick() {
	job, broken := s.daily("tick", lease.JobOptions{Missed: lease.All(3)}), errors.New("broken")
	s.must(s.once(job, today().AddDate(0, 0, -5), true, fine))
	ran, err := job.Tick(s.ctx, func(context.Context, *lease.Slot) error { return broken })
	s.want(err, broken)
	if ran != 3 {
		s.Fatalf("%d were run", ran)
	}
}

// runs lets the processes run for some slots of a short period; All makes up for a machine that is busy.
func (s *jobs[T]) runs() {
	const processes, want, period = 4, 12, 50 * time.Millisecond
	ctx, cancel := context.WithCancelCause(s.ctx)
	enough := errors.New("enough")
	var mu sync.Mutex // guards slots
	slots := map[time.Time]int{}
	together(processes, func(int) {
		job := s.job("run", lease.JobOptions{Schedule: lease.Every(period), Missed: lease.All(1000)})
		err := job.Run(ctx, func(_ context.Context, slot *lease.Slot) error {
			mu.Lock()
			defer mu.Unlock()
			slots[slot.At]++
			if len(slots) == want {
				cancel(enough)
			}
			return nil
		}, func(_ context.Context, err error) { s.Error(err) })
		if !errors.Is(err, enough) {
			s.Errorf("Run returned %v", err)
		}
	})
	var at []time.Time
	for slot, n := range slots {
		if at = append(at, slot); n != 1 {
			s.Errorf("%v was run %d times", slot, n)
		}
	}
	slices.SortFunc(at, time.Time.Compare)
	if last := at[0].Add((want + processes) * period); at[len(at)-1].After(last) {
		s.Errorf("slots are missing: %v", at)
	}
}

func (s *jobs[T]) sweeps() {
	job := s.daily("sweep", lease.JobOptions{})
	for ago := range 6 {
		s.must(s.once(job, today().AddDate(0, 0, -10-ago), true, fine))
	}
	_ = s.once(job, today().AddDate(0, 0, -18), true, func(context.Context, *lease.Slot) error {
		for _, keep := range []struct {
			days time.Duration
			want int
		}{{30, 0}, {13, 3}, {2, 2}} { // the last is kept, and the one that runs
			strict := s.job("sweep", lease.JobOptions{Window: 24 * time.Hour, Keep: keep.days * day})
			n, err := strict.Sweep(s.ctx)
			s.must(err)
			if n != keep.want {
				s.Errorf("%d slots older than %d days were swept, want %d", n, keep.days, keep.want)
			}
		}
		return nil
	})
	if n := s.count("select count(*) from lease_slot where job = $1", job.Name()); n != 2 {
		s.Errorf("%d slots are left", n)
	}
	if n := s.count("select count(*) from lease where name like $1", job.Name()+"@%"); n != 2 {
		s.Errorf("%d leases are left", n)
	}
}

func (s *jobs[T]) jobTables() {
	names := lease.Names{Table: "own lease", Slots: `own "slot"; drop`}
	if s.DB.Dialect().Capabilities.Schemas {
		names.Schema = fmt.Sprintf(`slots at %q, %d`, s.level, time.Now().UnixNano()) // others may run the suite
	}
	job := lease.NewJob(lease.NewSQL(s.DB, names), "a", &lease.JobOptions{Schedule: lease.Every(day)})
	if err := job.Check(s.ctx); err == nil {
		s.Fatal("a table that is not there passes")
	}
	s.must(lease.Migrate(s.ctx, s.DB, names))
	s.must(job.Check(s.ctx))
	s.must(s.once(job, today(), true, fine))
	s.due(job)
	_, err := job.Sweep(s.ctx)
	s.must(err)
	if s.DB.Dialect().Capabilities.Schemas {
		s.exec(`drop schema ` + s.DB.Dialect().Quote(names.Schema) + ` cascade`)
	}
}
