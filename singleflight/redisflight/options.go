package redisflight

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/singleflight"
)

// Options set up a [Cache]. The zero value is ready to use. Durations in Redis are in whole milliseconds.
type Options[V any] struct {
	// Decode makes a value of what Encode returned. Default: json.Unmarshal.
	Decode func([]byte) (V, error)
	// Encode makes the bytes that are stored. Default: json.Marshal.
	Encode func(V) ([]byte, error)
	// Jitter is by what part of itself a TTL is shortened at most, at random. Default: 0.1; below 0 for none.
	Jitter float64
	// Name is the Name of events. Default: "redisflight".
	Name string
	// NotFound tells which errors of the load say that there is no value. Default: those that wrap singleflight.ErrNotFound.
	NotFound func(error) bool
	// NotFoundTTL is how long such an error is remembered. Default: 0, not at all.
	NotFoundTTL time.Duration
	// Observer is told of events. Default: silent.
	Observer holdfast.Observer
	// OwnerTimeout is how long after its death a process that was loading keeps others waiting. A load may take longer: its
	// lease is renewed three times as often. Default: 5 seconds.
	OwnerTimeout time.Duration
	// Prefix begins all keys. It must have no brace. Caches of one Redis that load different things need different prefixes:
	// under one prefix, the same key is the same value. Default: "flight:".
	Prefix string
	// Timeout is how long Redis may take to answer before a load goes on without it. Default: 1 second.
	Timeout time.Duration
	// TTL is how old a value becomes, from the beginning of its load. One whose load takes longer is kept for 200 ms, for those who
	// wait for it in other processes. Default: 1 minute.
	TTL time.Duration
}

func (o *Options[V]) withDefaults() Options[V] {
	var filled Options[V]
	if o != nil {
		filled = *o
	}
	filled.Jitter = cmp.Or(filled.Jitter, 0.1)
	filled.Name = cmp.Or(filled.Name, "redisflight")
	filled.OwnerTimeout = cmp.Or(filled.OwnerTimeout, 5*time.Second)
	filled.Prefix = cmp.Or(filled.Prefix, "flight:")
	filled.Timeout = cmp.Or(filled.Timeout, time.Second)
	filled.TTL = cmp.Or(filled.TTL, time.Minute)
	if filled.Decode == nil {
		filled.Decode = func(text []byte) (value V, err error) {
			err = json.Unmarshal(text, &value)
			return value, err
		}
	}
	if filled.Encode == nil {
		filled.Encode = func(value V) ([]byte, error) { return json.Marshal(value) }
	}
	if filled.NotFound == nil {
		filled.NotFound = func(err error) bool { return errors.Is(err, singleflight.ErrNotFound) }
	}
	return filled
}

func (o *Options[V]) check() error {
	switch {
	case strings.ContainsAny(o.Prefix, "{}"):
		return fmt.Errorf("%w: Options.Prefix has a brace, which would choose the slot of the cluster: leave it out", ErrInvalid)
	case o.TTL < time.Millisecond || o.NotFoundTTL < 0 || o.NotFoundTTL > 0 && o.NotFoundTTL < time.Millisecond:
		return fmt.Errorf("%w: Options.TTL and NotFoundTTL must be 1ms at least", ErrInvalid)
	case o.OwnerTimeout < 10*time.Millisecond || o.Timeout <= 0:
		return fmt.Errorf("%w: Options.OwnerTimeout must be 10ms at least, and Timeout above 0", ErrInvalid)
	case o.Jitter > 1 || o.Jitter != o.Jitter:
		return fmt.Errorf("%w: Options.Jitter is above 1 or not a number", ErrInvalid)
	}
	return nil
}
