package main

import (
	"context"
	"errors"
	"os"
	"strconv"
	"sync"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/counter/rediscounter"
	"github.com/holdfast-go/holdfast/internal/testdb"
)

// redisCounters are those in Redis. Each worker has a counter of its own: the server does one thing at a time anyway.
var redisCounters = group{
	name: "redis",
	variants: func(s *setup) []variant {
		r := &redisSetup{prefix: "holdfast_bench_" + strconv.Itoa(os.Getpid()) + ":"}
		s.redis = r
		return []variant{
			{"EVALSHA of incrby: no ledger", r.op(r.bareScript)},
			{"INCRBY: counts twice when a reply is lost", r.op(r.plain)},
			{"rediscounter.Add", r.op(r.add)},
			{"rediscounter.Add with an operation ID", r.op(r.addOperation)},
			{"rediscounter.Take", r.op(r.take)},
			{"redis_rate Allow: a limiter in one script, no ledger", r.op(r.allow)},
		}
	},
	local: true,
}

var bareIncrement = redis.NewScript(`return redis.call('incrby', KEYS[1], ARGV[1])`)

// redisSetup is a client and what it is for, opened at the first use.
type redisSetup struct {
	prefix string

	once     sync.Once // guards all below
	err      error
	server   *testdb.Server // nil for one of somebody else
	client   *redis.Client
	counters *rediscounter.Counters
	limiter  *redis_rate.Limiter
}

func (r *redisSetup) open(ctx context.Context) error {
	address := os.Getenv(testdb.RedisEnv)
	if address == "" {
		if r.server, r.err = testdb.StartRedis(ctx); r.err != nil {
			return r.err
		}
		address = r.server.URL()
	}
	o, err := redis.ParseURL(address)
	if err != nil {
		return err
	}
	r.client = redis.NewClient(o)
	r.counters = rediscounter.New(r.client, &rediscounter.Options{Prefix: r.prefix})
	r.limiter = redis_rate.NewLimiter(r.client)
	if r.server != nil { // tests need each write on disk, which would hide what the scripts cost
		if err := r.client.ConfigSet(ctx, "appendfsync", "no").Err(); err != nil {
			return err
		}
	}
	return nil
}

func (r *redisSetup) close() error {
	if r == nil {
		return nil
	}
	var errs []error
	if r.client != nil {
		if r.server == nil {
			errs = append(errs, r.forget(context.Background())) // also after an interrupt
		}
		errs = append(errs, r.client.Close())
	}
	if r.server != nil {
		errs = append(errs, r.server.Close())
	}
	return errors.Join(errs...)
}

// forget deletes the keys from a server that stays.
func (r *redisSetup) forget(ctx context.Context) error {
	keys := r.client.Scan(ctx, 0, "*"+r.prefix+"*", 1000).Iterator() // the limiter puts a prefix of its own before ours
	for keys.Next(ctx) {
		if err := r.client.Unlink(ctx, keys.Val()).Err(); err != nil {
			return err
		}
	}
	return keys.Err()
}

// op opens the client before it does an operation.
func (r *redisSetup) op(do func(ctx context.Context, name string, seq int64) error) func(context.Context, int, int64) error {
	return func(ctx context.Context, worker int, seq int64) error {
		if r.once.Do(func() { r.err = r.open(ctx) }); r.err != nil {
			return r.err
		}
		return do(ctx, strconv.Itoa(worker), seq)
	}
}

func (r *redisSetup) plain(ctx context.Context, name string, _ int64) error {
	return r.client.IncrBy(ctx, r.prefix+name, 1).Err()
}

func (r *redisSetup) bareScript(ctx context.Context, name string, _ int64) error {
	return bareIncrement.Run(ctx, r.client, []string{r.prefix + name}, 1).Err()
}

func (r *redisSetup) add(ctx context.Context, name string, _ int64) error {
	_, err := r.counters.Add(ctx, name, 1, "")
	return err
}

func (r *redisSetup) addOperation(ctx context.Context, name string, seq int64) error {
	_, err := r.counters.Add(ctx, name, 1, strconv.FormatInt(seq, 10))
	return err
}

// take fills the shelf when it is empty.
func (r *redisSetup) take(ctx context.Context, name string, _ int64) error {
	_, err := r.counters.Take(ctx, "stock "+name, 1, "")
	if errors.Is(err, rediscounter.ErrInsufficient) {
		_, err = r.counters.Add(ctx, "stock "+name, 1<<40, "")
	}
	return err
}

func (r *redisSetup) allow(ctx context.Context, name string, _ int64) error {
	_, err := r.limiter.Allow(ctx, r.prefix+name, redis_rate.PerSecond(1<<20))
	return err
}
