package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
)

// wakes is how long after the end of what it waits for a process has it, with notifications and by polling.
var wakes = group{name: "wake", report: reportWakes, local: true}

const (
	wakeRounds = 300
	pollRounds = 30 // each takes as long as a pause
	atWork     = 300 * time.Millisecond
)

// A wakeWay waits for something that ends, in one round, and tells when it ended and when the waiter had it.
type wakeWay struct {
	name   string
	rounds int
	round  func(ctx context.Context, key string) (ended, had time.Time, err error)
}

func reportWakes(ctx context.Context, s *setup) error {
	other, err := pgxpool.NewWithConfig(ctx, s.pool.Config())
	if err != nil {
		return err
	}
	defer other.Close()
	db, otherDB := s.db, pgxtx.New(other)
	leaseStores := [2]*lease.SQL[pgx.Tx]{lease.NewSQL(db, lease.Names{}), lease.NewSQL(otherDB, lease.Names{})}
	if err := lease.Migrate(ctx, db, lease.Names{}); err != nil {
		return err
	}
	idemStores := [2]idem.Store{s.keys.Store(), idem.New(otherDB, nil).Store()}
	fmt.Printf("\nwake, from the end of what another process waits for until that has it\n")
	for _, way := range []wakeWay{
		{"pgx, LISTEN and pg_notify by hand", wakeRounds, func(ctx context.Context, key string) (ended, had time.Time, err error) {
			return byHand(ctx, s.pool, other, key)
		}},
		{"lease.Acquire, notified", wakeRounds, handOver(leaseStores[0], leaseStores[1])},
		{"lease.Acquire, polling as it comes (1s)", pollRounds, handOver(leaseStores[0], pollingLease{leaseStores[1]})},
		{"idem.DoLeased, notified", wakeRounds, answerOf(idemStores[0], idemStores[1], 0)},
		{"idem.DoLeased, notified, after 300ms", pollRounds, answerOf(idemStores[0], idemStores[1], atWork)},
		{"idem.DoLeased, polling, after 300ms", pollRounds, answerOf(idemStores[0], pollingIdem{idemStores[1]}, atWork)},
	} {
		if err := way.measure(ctx); err != nil {
			return fmt.Errorf("%s: %w", way.name, err)
		}
	}
	return nil
}

// Stores that hide what else they can do: who waits is not notified.
type (
	pollingLease struct{ lease.FencingStore }
	pollingIdem  struct{ idem.Store }
)

func (w wakeWay) measure(ctx context.Context) error {
	took := make([]time.Duration, 0, w.rounds)
	for i := range w.rounds {
		ended, had, err := w.round(ctx, rand.Text()+strconv.Itoa(i))
		if err != nil {
			return err
		}
		took = append(took, had.Sub(ended))
	}
	slices.Sort(took)
	at := func(share float64) time.Duration {
		return took[int(share*float64(len(took)-1))].Round(10 * time.Microsecond)
	}
	fmt.Printf("%6d rounds  p50 %9v  p99 %9v  longest %9v  %s\n", w.rounds, at(0.5), at(0.99), at(1), w.name)
	return nil
}

func byHand(ctx context.Context, mine, other *pgxpool.Pool, key string) (ended, had time.Time, err error) {
	conn, err := other.Acquire(ctx)
	if err != nil {
		return ended, had, err
	}
	defer conn.Release()
	if _, err := conn.Exec(ctx, "listen bench_wake"); err != nil {
		return ended, had, err
	}
	heard := make(chan error, 1)
	go func() {
		_, err := conn.Conn().WaitForNotification(ctx)
		had = time.Now()
		heard <- err
	}()
	ended = time.Now()
	_, err = mine.Exec(ctx, "select pg_notify('bench_wake', $1)", key)
	return ended, had, errors.Join(err, <-heard)
}

// handOver has one process release what the other waits for.
func handOver(mine, others lease.FencingStore) func(ctx context.Context, key string) (ended, had time.Time, err error) {
	holder, waiter := lease.New(mine, nil), lease.New(others, nil)
	return func(ctx context.Context, key string) (ended, had time.Time, err error) {
		h, err := holder.TryAcquire(ctx, key)
		if err != nil {
			return ended, had, err
		}
		done := make(chan error, 1)
		go func() {
			h, err := waiter.Acquire(ctx, key)
			had = time.Now()
			if err == nil {
				_, err = h.Release(ctx)
			}
			done <- err
		}()
		time.Sleep(20 * time.Millisecond) // it waits
		ended = time.Now()
		_, err = h.Release(ctx)
		return ended, had, errors.Join(err, <-done)
	}
}

// answerOf has one process do what the other has a duplicate of.
func answerOf(mine, others idem.Store, work time.Duration) func(ctx context.Context, key string) (ended, had time.Time, err error) {
	first, second := idem.NewLeasedOn(mine, nil), idem.NewLeasedOn(others, &idem.LeaseOptions{Wait: time.Minute})
	return func(ctx context.Context, value string) (ended, had time.Time, err error) {
		done := make(chan error, 1)
		_, err = idem.DoLeased(ctx, first, idemKey(value), func(context.Context, *idem.Run) (string, error) {
			go func() {
				_, err := idem.DoLeased(ctx, second, idemKey(value), func(context.Context, *idem.Run) (string, error) {
					return "", errors.New("the duplicate ran")
				})
				had = time.Now()
				done <- err
			}()
			time.Sleep(20*time.Millisecond + work) // it waits
			ended = time.Now()
			return "first", nil
		})
		return ended, had, errors.Join(err, <-done)
	}
}
