package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/singleflight/redisflight"
)

// redisFlights are caches in Redis whose load does nothing. A hit is one round trip in either, a miss two; what ours pays beside is
// the script, and a request that a caller can leave. TestRoundTrips of the package pins the trips. Each worker has a key of its own
// for hits; a miss has one that nobody had.
var redisFlights = group{
	name: "redisflight",
	variants: func(s *setup) []variant {
		f := &flightRedis{redisSetup: &redisSetup{prefix: "holdfast_bench_" + strconv.Itoa(os.Getpid()) + ":"}}
		s.redis = f.redisSetup
		return []variant{
			{"GET, and decode: a hit", f.op(f.get)},
			{"redisflight Get, a hit", f.op(f.hit)},
			{"GET, load, SET: a miss that stampedes and stores what is stale", f.op(f.getSet)},
			{"redisflight Get, a miss", f.op(f.miss)},
		}
	},
	local: true,
}

type flightRedis struct {
	*redisSetup

	once  sync.Once // makes cache
	cache *redisflight.Cache[int]
}

func (f *flightRedis) get(ctx context.Context, key string, _ int64) error {
	return f.through(ctx, "naive "+key)
}

func (f *flightRedis) getSet(ctx context.Context, _ string, seq int64) error {
	return f.through(ctx, fmt.Sprint("naive miss ", seq))
}

// through reads, and fills what is missing.
func (f *flightRedis) through(ctx context.Context, key string) error {
	_, err := f.client.Get(ctx, f.prefix+key).Int()
	if errors.Is(err, redis.Nil) {
		return f.client.Set(ctx, f.prefix+key, 1, time.Minute).Err()
	}
	return err
}

// ours is made once there is a client.
func (f *flightRedis) ours() *redisflight.Cache[int] {
	f.once.Do(func() {
		load := func(context.Context, string) (int, error) { return 1, nil }
		f.cache = redisflight.New(f.client, load, &redisflight.Options[int]{Prefix: f.prefix})
	})
	return f.cache
}

func (f *flightRedis) hit(ctx context.Context, key string, _ int64) error {
	_, err := f.ours().Get(ctx, key)
	return err
}

func (f *flightRedis) miss(ctx context.Context, _ string, seq int64) error {
	_, err := f.ours().Get(ctx, fmt.Sprint("miss ", seq))
	return err
}
