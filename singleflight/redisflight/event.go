package redisflight

import (
	"context"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
)

// Events, beside those of [singleflight.Group]. Name is [Options].Name, Key the beginning of a digest of the key.
const (
	// EventHit: the value was in Redis.
	EventHit holdfast.EventKind = "redisflight.hit"
	// EventLoaded: a load ended. Elapsed is how long it took, Err its error.
	EventLoaded holdfast.EventKind = "redisflight.loaded"
	// EventWaited: another process was loading. Elapsed is how long it was waited for.
	EventWaited holdfast.EventKind = "redisflight.waited"
	// EventRefused: what a load came to was not stored, since it was invalidated or the lease was lost meanwhile.
	EventRefused holdfast.EventKind = "redisflight.refused"
	// EventUnreadable: what was stored could not be decoded, and is dropped. Err is why.
	EventUnreadable holdfast.EventKind = "redisflight.unreadable"
	// EventUnstored: what a load came to was not stored, or nobody knows, or Redis was not asked first. Err is why.
	EventUnstored holdfast.EventKind = "redisflight.unstored"
)

func (c *Cache[V]) observe(ctx context.Context, kind holdfast.EventKind, k keys, took time.Duration, err error) {
	holdfast.Observe(ctx, c.o.Observer, holdfast.Event{Kind: kind, Name: c.o.Name, Key: k.digest, Elapsed: took, Err: err})
}
