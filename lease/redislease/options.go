package redislease

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Options set up a [Store]. The zero value is ready to use.
type Options struct {
	// Prefix begins all keys. It must have no brace. Default: "lease:".
	Prefix string
	// Retention is how long the last token of a lease that nobody takes any more is kept, in whole milliseconds, 1 s at least.
	// Tokens go on from the server's clock after it. Default: 30 days.
	Retention time.Duration
}

func (o *Options) withDefaults() Options {
	var filled Options
	if o != nil {
		filled = *o
	}
	filled.Prefix = cmp.Or(filled.Prefix, "lease:")
	filled.Retention = cmp.Or(filled.Retention, 30*24*time.Hour)
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
	Scan(ctx context.Context, cursor uint64, match string, count int64) *redis.ScanCmd
}
