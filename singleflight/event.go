package singleflight

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
)

// Events of [Group] and [Cache]. Name is that of the options, Key the beginning of a digest of the key as fmt prints it.
const (
	// EventShared: a caller took part in the call of another. Elapsed is how long it waited, Err what it got.
	EventShared holdfast.EventKind = "singleflight.shared"
	// EventAbandoned: the last caller left, and the context of the function ended. Err is why that caller left.
	EventAbandoned holdfast.EventKind = "singleflight.abandoned"
	// EventPanicked: the function panicked, or called Goexit. Err says which, with the stack.
	EventPanicked holdfast.EventKind = "singleflight.panicked"
)

// Events of [Cache] alone.
const (
	// EventHit: a caller got what was in the cache, and it was fresh.
	EventHit holdfast.EventKind = "singleflight.hit"
	// EventLoaded: a load ended. Elapsed is how long it took, Err its error.
	EventLoaded holdfast.EventKind = "singleflight.loaded"
	// EventStale: a caller got a value older than the soft TTL. Err is the error of the load, if there was one to wait for.
	EventStale holdfast.EventKind = "singleflight.stale"
	// EventDropped: what a load came to was not stored, since it was invalidated or left by all meanwhile.
	EventDropped holdfast.EventKind = "singleflight.dropped"
)

func observe[K comparable](ctx context.Context, o *Options, kind holdfast.EventKind, key K, took time.Duration, err error) {
	if o.Observer == nil {
		return
	}
	sum := sha256.Sum256([]byte(fmt.Sprint(key)))
	holdfast.Observe(ctx, o.Observer, holdfast.Event{
		Kind: kind, Name: cmp.Or(o.Name, "singleflight"), Key: hex.EncodeToString(sum[:8]), Elapsed: took, Err: err,
	})
}
