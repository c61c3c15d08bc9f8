package redisidem

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Options set up a [Store]. The zero value is ready to use. Durations are in whole milliseconds.
type Options struct {
	// AllowEviction lets [Store.Check] accept a server that may evict keys when its memory is full. An operation whose key was evicted
	// runs again. Default: refused.
	AllowEviction bool
	// Prefix begins all keys. It must have no brace. Processes that share keys have the same. Default: "idem:".
	Prefix string
	// Retention is how long the epoch of a key that was made free is kept, 1 s at least. Later ones begin at the server's clock.
	// Default: 1 hour.
	Retention time.Duration
	// Tombstone is for how long after its answer has expired a key is remembered, without the answer: a late retry is then refused
	// with idem.ErrKeyExpired, and does not run again. Default: 24 hours. Negative: the key goes with its answer.
	Tombstone time.Duration
}

func (o *Options) withDefaults() Options {
	var filled Options
	if o != nil {
		filled = *o
	}
	filled.Prefix = cmp.Or(filled.Prefix, "idem:")
	filled.Retention = cmp.Or(filled.Retention, time.Hour)
	filled.Tombstone = cmp.Or(filled.Tombstone, 24*time.Hour)
	return filled
}

func (o *Options) check() error {
	switch {
	case strings.ContainsAny(o.Prefix, "{}"):
		return fmt.Errorf("%w: Options.Prefix has a brace, which would choose the slot of the cluster: leave it out", ErrInvalid)
	case o.Retention < time.Second:
		return fmt.Errorf("%w: Options.Retention must be 1 s at least", ErrInvalid)
	}
	return nil
}

// Client is what go-redis' Client, ClusterClient and UniversalClient have.
type Client interface {
	redis.Scripter
	Info(ctx context.Context, sections ...string) *redis.StringCmd
	Pipeline() redis.Pipeliner
	Publish(ctx context.Context, channel string, message any) *redis.IntCmd
	Scan(ctx context.Context, cursor uint64, match string, count int64) *redis.ScanCmd
	Subscribe(ctx context.Context, channels ...string) *redis.PubSub
}
