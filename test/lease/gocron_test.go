package lease_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/tx"
)

// Package lease imports none of them, and fits all the same.
var (
	_ gocron.Locker  = (*lease.Locker[gocron.Lock])(nil)
	_ gocron.Elector = (*lease.Elector[*lease.Held])(nil)
	_ gocron.Elector = (*lease.Elector[*lease.Advisory])(nil)
)

func sqliteDB(t *testing.T) *tx.DB[*sql.Tx] {
	t.Helper()
	db := openDB(t, "sqlite", "file:"+filepath.Join(t.TempDir(), "test.db")+sqliteParams, tx.SQLite)
	if err := lease.Migrate(t.Context(), db, lease.Names{}); err != nil {
		t.Fatal(err)
	}
	return db
}

// Three schedulers of gocron, of which the clocks of two are behind by more than the job takes: each has let its lock go when the
// next comes. The period is counted from one instant for all.
func TestGocronLocker(t *testing.T) {
	t.Parallel()
	const period, behind = 300 * time.Millisecond, 40 * time.Millisecond
	db, ran := sqliteDB(t), make(chan struct{}, 1000)
	var schedulers []*scheduler
	first := time.Now().Add(period).Truncate(period).Add(period)
	for i := range 3 {
		job := lease.NewJob(lease.NewSQL(db, lease.Names{}), "report", &lease.JobOptions{Schedule: lease.Every(period)})
		locker, err := lease.NewLocker[gocron.Lock](job)
		if err != nil {
			t.Fatal(err)
		}
		start := gocron.WithStartDateTime(first.Add(time.Duration(i) * behind))
		s := startScheduler(t, gocron.WithDistributedLocker(locker))
		s.add(t, gocron.DurationJob(period), func() { ran <- struct{}{} }, gocron.WithName("report"), gocron.WithStartAt(start))
		schedulers = append(schedulers, s)
	}
	const enough = 8
	for range enough {
		<-ran
	}
	for _, s := range schedulers {
		s.stop(t)
	}
	var slots int
	if err := db.Conn().QueryRow(t.Context(), "select count(*) from lease_slot where state = 'done'").Scan(&slots); err != nil {
		t.Fatal(err)
	}
	if runs := enough + len(ran); runs != slots {
		t.Errorf("%d runs of %d slots", runs, slots)
	}
}

// A locker knows its jobs alone, and says who keeps a slot.
func TestLockerRefuses(t *testing.T) {
	t.Parallel()
	store := lease.NewSQL(sqliteDB(t), lease.Names{})
	job := lease.NewJob(store, "report", &lease.JobOptions{Schedule: lease.Every(24 * time.Hour)})
	locker, err := lease.NewLocker[gocron.Lock](job)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := locker.Lock(t.Context(), "another"); !errors.Is(err, lease.ErrInvalid) {
		t.Errorf("got %v", err)
	}
	lock, err := locker.Lock(t.Context(), "report")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := locker.Lock(t.Context(), "report"); !errors.Is(err, lease.ErrSlot) {
		t.Errorf("while it runs: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := lock.Unlock(ctx); err != nil {
		t.Error(err)
	}
	if _, err := locker.Lock(t.Context(), "report"); !errors.Is(err, lease.ErrSlot) {
		t.Errorf("when it was run: %v", err)
	}
	if _, err := lease.NewLocker[gocron.Lock](job, job); !errors.Is(err, lease.ErrInvalid) {
		t.Errorf("the same twice: %v", err)
	}
	if _, err := lease.NewLocker[gocron.Lock](lease.NewJob(store, "unscheduled", nil)); !errors.Is(err, lease.ErrInvalid) {
		t.Errorf("no schedule: %v", err)
	}
	type more interface {
		gocron.Lock
		Extend()
	}
	if _, err := lease.NewLocker[more](job); !errors.Is(err, lease.ErrInvalid) {
		t.Errorf("more than a lock: %v", err)
	}
}

// One scheduler runs everything until it resigns, then the other does.
func TestGocronElector(t *testing.T) {
	t.Parallel()
	store := lease.NewSQL(sqliteDB(t), lease.Names{})
	ran := make(chan int, 1000)
	var schedulers []*scheduler
	var electors []*lease.Elector[*lease.Held]
	for i := range 2 {
		elector := lease.NewElector(lease.New(store, nil), "scheduler")
		s := startScheduler(t, gocron.WithDistributedElector(elector))
		s.add(t, gocron.DurationJob(20*time.Millisecond), func() { ran <- i })
		schedulers, electors = append(schedulers, s), append(electors, elector)
	}
	leader := <-ran
	for range 10 {
		if got := <-ran; got != leader {
			t.Fatalf("%d leads, and %d ran", leader, got)
		}
	}
	if err := electors[1-leader].IsLeader(t.Context()); !errors.Is(err, lease.ErrHeld) {
		t.Errorf("the other: %v", err)
	}
	schedulers[leader].stop(t)
	electors[leader].Resign(t.Context())
	for <-ran == leader { // what it had run before
	}
	if err := electors[leader].IsLeader(t.Context()); !errors.Is(err, lease.ErrHeld) {
		t.Errorf("after it resigned: %v", err)
	}
}

type scheduler struct {
	gocron.Scheduler

	once sync.Once
}

func startScheduler(t *testing.T, o gocron.SchedulerOption) *scheduler {
	t.Helper()
	s, err := gocron.NewScheduler(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	started := &scheduler{Scheduler: s}
	t.Cleanup(func() { started.stop(t) })
	return started
}

func (s *scheduler) add(t *testing.T, job gocron.JobDefinition, task func(), o ...gocron.JobOption) {
	t.Helper()
	if _, err := s.NewJob(job, gocron.NewTask(task), o...); err != nil {
		t.Fatal(err)
	}
}

func (s *scheduler) stop(t *testing.T) {
	s.once.Do(func() {
		if err := s.Shutdown(); err != nil {
			t.Error(err)
		}
	})
}
