package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/lease/redislease"
)

// redisLeases are taken and given back in Redis, beside the peers, on one client (but rueidislock, which has its own). Each
// worker has a name of its own.
var redisLeases = group{
	name: "lease-redis",
	variants: func(s *setup) []variant {
		r := &lockSetup{redisSetup: redisSetup{prefix: "holdfast_bench_" + strconv.Itoa(os.Getpid()) + ":"}}
		s.redis = &r.redisSetup
		s.closers = append(s.closers, r.closeRueidis)
		return []variant{
			{"SET NX PX, then delete if mine: no token, no renewal", r.op(r.raw)},
			{"redislock Obtain and Release: no token, no renewal", r.op(r.redislock)},
			{"redislease TryAcquire and Release", r.op(r.ours)},
			{"redsync TryLock and Unlock: no token, no renewal", r.op(r.redsync)},
			{"rueidislock TryWithContext and cancel: no token", r.op(r.rueidislock)},
		}
	},
	bars:  []bar{{at: 2, reference: 0, direct: 0.85}, {at: 2, reference: 1, direct: 1}},
	local: true,
}

var errBusy = errors.New("the lock was not taken, or was not the caller's at its release")

// errNotTaken returns err, or that nothing was taken.
func errNotTaken(err error) error { return cmp.Or(err, errBusy) }

var deleteIfMine = redis.NewScript(`if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`)

// lockSetup is the client, and what takes locks through it.
type lockSetup struct {
	redisSetup

	peers   sync.Once // guards all below
	failed  error
	lock    *redislock.Client
	sync    *redsync.Redsync
	rueidis rueidislock.Locker
	leases  *lease.Leases[*lease.Held]
}

// op opens the client and the peers before it does an operation.
func (r *lockSetup) op(do func(ctx context.Context, name string) error) func(context.Context, int, int64) error {
	return r.redisSetup.op(func(ctx context.Context, name string, _ int64) error {
		r.peers.Do(func() {
			r.lock = redislock.New(r.client)
			r.sync = redsync.New(goredis.NewPool(r.client))
			r.leases = lease.New(redislease.New(r.client, &redislease.Options{Prefix: r.prefix}), &lease.Options{TTL: leaseTTL})
			r.rueidis, r.failed = newRueidisLocker(r.client.Options().Addr, r.prefix)
		})
		if r.failed != nil {
			return r.failed
		}
		return do(ctx, r.prefix+name)
	})
}

func newRueidisLocker(address, prefix string) (rueidislock.Locker, error) {
	return rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{address}}, KeyPrefix: prefix, KeyMajority: 1, KeyValidity: leaseTTL,
		NoLoopTracking: true, TryNextAfter: time.Second, // 20 ms by default, which a busy machine needs at times
	})
}

func (r *lockSetup) closeRueidis() {
	if r.rueidis != nil {
		r.rueidis.Close()
	}
}

func (r *lockSetup) raw(ctx context.Context, name string) error {
	nonce := rand.Text()
	if err := r.client.SetArgs(ctx, name+":raw", nonce, redis.SetArgs{Mode: "NX", TTL: leaseTTL}).Err(); err != nil {
		return err
	}
	n, err := deleteIfMine.Run(ctx, r.client, []string{name + ":raw"}, nonce).Int()
	if err != nil || n != 1 {
		return errNotTaken(err)
	}
	return nil
}

func (r *lockSetup) redislock(ctx context.Context, name string) error {
	lock, err := r.lock.Obtain(ctx, name+":redislock", leaseTTL, nil)
	if err != nil {
		return err
	}
	return lock.Release(ctx)
}

func (r *lockSetup) redsync(ctx context.Context, name string) error {
	lock := r.sync.NewMutex(name+":redsync", redsync.WithExpiry(leaseTTL), redsync.WithTries(1))
	if err := lock.TryLockContext(ctx); err != nil {
		return err
	}
	if ok, err := lock.UnlockContext(ctx); err != nil || !ok {
		return errNotTaken(err)
	}
	return nil
}

func (r *lockSetup) rueidislock(ctx context.Context, name string) error {
	_, cancel, err := r.rueidis.TryWithContext(ctx, name)
	if err != nil {
		return err
	}
	cancel() // which waits for the reply
	return nil
}

func (r *lockSetup) ours(ctx context.Context, name string) error {
	return takeAndRelease(ctx, r.leases, name)
}
