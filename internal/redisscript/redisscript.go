// Package redisscript runs Lua scripts on Redis for packages that keep something there: each within its context, which go-redis by
// default does not heed while it reads, and many of them in one round trip to each node.
package redisscript

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// Client is what go-redis' Client, ClusterClient and UniversalClient have.
type Client interface {
	redis.Scripter
	Pipeline() redis.Pipeliner
}

// Missing reports whether there is no client.
func Missing(client any) bool {
	switch c := client.(type) {
	case nil:
		return true
	case *redis.Client:
		return c == nil
	case *redis.ClusterClient:
		return c == nil
	}
	return false
}

// A Runner runs scripts. It is safe for concurrent use.
type Runner struct {
	client   Client
	patience time.Duration // of the client, for a reply; 0 is as long as it takes
	heeds    bool          // the client stops at deadlines by itself
	tasks    chan func()   // taken by workers that have nothing to do
}

// New returns a runner over a client that is not [Missing].
func New(client Client) *Runner {
	r := &Runner{client: client, tasks: make(chan func())}
	switch c := client.(type) {
	case *redis.Client:
		r.patience, r.heeds = c.Options().ReadTimeout, c.Options().ContextTimeoutEnabled
	case *redis.ClusterClient:
		r.patience, r.heeds = c.Options().ReadTimeout, c.Options().ContextTimeoutEnabled
	}
	return r
}

// Run runs a script: one round trip, once the server knows it. It returns at the deadline of ctx, and after a cancellation when a
// reply comes or the client's ReadTimeout is over.
func (r *Runner) Run(ctx context.Context, script *redis.Script, keys []string, args ...any) (reply any, err error) {
	return Ask(ctx, r, func() (any, error) { return script.Run(ctx, r.client, keys, args...).Result() })
}

// A Call is one run of a script among several.
type Call struct {
	Keys []string
	Args []any
	// Reply and Err are what came of it.
	Reply any
	Err   error
}

// RunAll runs a script for each of calls, and returns them with what came of each: one round trip to each node, once the servers know
// it. The error is that the time of ctx was over.
func (r *Runner) RunAll(ctx context.Context, script *redis.Script, calls []Call) ([]Call, error) {
	if len(calls) == 0 {
		return nil, nil
	}
	return Ask(ctx, r, func() ([]Call, error) { return r.runAll(ctx, script, calls), nil })
}

func (r *Runner) runAll(ctx context.Context, script *redis.Script, calls []Call) []Call {
	done := slices.Clone(calls) // nobody may wait for this any more
	r.send(ctx, done, script.EvalSha)
	var unknown []Call
	var at []int // indices of unknown in done
	for i, c := range done {
		if redis.HasErrorPrefix(c.Err, "NOSCRIPT") {
			unknown, at = append(unknown, c), append(at, i)
		}
	}
	if len(unknown) > 0 {
		r.send(ctx, unknown, script.Eval)
	}
	for n, i := range at {
		done[i] = unknown[n]
	}
	return done
}

type evaluate func(ctx context.Context, c redis.Scripter, keys []string, args ...any) *redis.Cmd

func (r *Runner) send(ctx context.Context, calls []Call, evaluate evaluate) {
	pipe := r.client.Pipeline()
	replies := make([]*redis.Cmd, len(calls))
	for i, c := range calls {
		replies[i] = evaluate(ctx, pipe, c.Keys, c.Args...)
	}
	_, _ = pipe.Exec(ctx) // each has its own
	for i, reply := range replies {
		calls[i].Reply, calls[i].Err = reply.Result()
	}
}
