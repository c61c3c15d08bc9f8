package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/lease/redislease"
)

// waiting is how long callers wait for one lease in Redis that all want. It has no rate to compare, and prints what it finds.
var waiting = group{name: "lease-wait", report: reportWaiting, local: true}

const (
	contenders = 16
	contention = 4 * time.Second // for each way
	held       = time.Millisecond
)

// reportWaiting has the callers of each way take, keep for a moment, and give back.
func reportWaiting(ctx context.Context, s *setup) error {
	r := &redisSetup{prefix: "holdfast_bench_" + strconv.Itoa(os.Getpid()) + ":"}
	s.redis = r
	if err := r.open(ctx); err != nil {
		return err
	}
	one := newWaitLeases(r.client, r.prefix)
	var apart [contenders]*lease.Leases[*lease.Held]
	for i := range apart {
		apart[i] = newWaitLeases(r.client, r.prefix)
	}
	locks := redislock.New(r.client)
	peer := func(pause time.Duration) func(context.Context, int) error {
		return func(ctx context.Context, _ int) error {
			o := &redislock.Options{RetryStrategy: redislock.LinearBackoff(pause)}
			lock, err := locks.Obtain(ctx, r.prefix+"peer", leaseTTL, o)
			if err != nil {
				return err
			}
			time.Sleep(held)
			return lock.Release(ctx)
		}
	}
	fmt.Printf("\nlease-wait, %d callers of one lease, each keeps it for %v\n", contenders, held)
	for _, way := range []variant{
		{"redislock, LinearBackoff(100ms) as in its README", perCaller(peer(100 * time.Millisecond))},
		{"redislock, LinearBackoff(10ms)", perCaller(peer(10 * time.Millisecond))},
		{"redislease, one process, as it comes", perCaller(func(ctx context.Context, _ int) error { return one.Run(ctx, "one", keep) })},
		{"redislease, a process for each caller, PollEvery 100ms", perCaller(func(ctx context.Context, i int) error {
			return apart[i].Run(ctx, "apart", keep)
		})},
	} {
		if err := contend(ctx, way); err != nil {
			return fmt.Errorf("%s: %w", way.name, err)
		}
	}
	return nil
}

func newWaitLeases(client *redis.Client, prefix string) *lease.Leases[*lease.Held] {
	store := redislease.New(client, &redislease.Options{Prefix: prefix})
	return lease.New(store, &lease.Options{TTL: leaseTTL, PollEvery: 100 * time.Millisecond})
}

func keep(context.Context, *lease.Held) error {
	time.Sleep(held)
	return nil
}

func perCaller(do func(ctx context.Context, caller int) error) func(context.Context, int, int64) error {
	return func(ctx context.Context, caller int, _ int64) error { return do(ctx, caller) }
}

// contend measures how long each turn takes, waiting included, and prints the percentiles.
func contend(ctx context.Context, way variant) error {
	var (
		all   sync.WaitGroup
		mu    sync.Mutex // guards took
		took  []time.Duration
		errs  [contenders]error
		ended = time.Now().Add(contention)
	)
	for caller := range contenders {
		all.Go(func() {
			for time.Now().Before(ended) && errs[caller] == nil {
				begun := time.Now()
				errs[caller] = way.op(ctx, caller, 0)
				mu.Lock()
				took = append(took, time.Since(begun))
				mu.Unlock()
			}
		})
	}
	all.Wait()
	slices.Sort(took)
	at := func(share float64) time.Duration {
		return took[int(share*float64(len(took)-1))].Round(100 * time.Microsecond)
	}
	fmt.Printf("%8d turns  p50 %8v  p99 %8v  longest %8v  %s\n", len(took), at(0.5), at(0.99), at(1), way.name)
	return errors.Join(errs[:]...)
}
