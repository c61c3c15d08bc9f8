package rediscounter

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	holdfast "github.com/holdfast-go/holdfast"
)

// Options set up [Counters]. The zero value is ready to use.
type Options struct {
	// Name is the Name of events. Default: "counter".
	Name string
	// Observer is told of events. Default: silent.
	Observer holdfast.Observer
	// Prefix begins all keys. It must have no brace. Default: "counter:".
	Prefix string
	// Retention is how long an operation with an ID is remembered, in whole milliseconds. Default: 24 hours.
	Retention time.Duration
	// TTL is the life of a counter from its first change, in whole milliseconds. Later changes do not prolong it.
	// Default: 0, which is for ever.
	TTL time.Duration
}

// withDefaults returns a copy that is filled in.
func (o *Options) withDefaults() Options {
	var filled Options
	if o != nil {
		filled = *o
	}
	filled.Name = cmp.Or(filled.Name, "counter")
	filled.Prefix = cmp.Or(filled.Prefix, "counter:")
	filled.Retention = cmp.Or(filled.Retention, 24*time.Hour)
	return filled
}

func (o *Options) check() error {
	switch {
	case strings.ContainsAny(o.Prefix, "{}"):
		return fmt.Errorf("%w: Options.Prefix has a brace, which would choose the slot of the cluster: leave it out", ErrInvalid)
	case o.Retention < time.Millisecond:
		return fmt.Errorf("%w: Options.Retention must be 1ms at least", ErrInvalid)
	case o.TTL < 0 || o.TTL > 0 && o.TTL < time.Millisecond:
		return fmt.Errorf("%w: Options.TTL must be 0 or 1ms at least", ErrInvalid)
	}
	return nil
}

// Client is what go-redis' Client, ClusterClient and UniversalClient have.
type Client interface {
	redis.Scripter
	Get(ctx context.Context, key string) *redis.StringCmd
}
