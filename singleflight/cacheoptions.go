package singleflight

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
)

// CacheOptions set up a [Cache]. The zero value is ready to use.
type CacheOptions[V any] struct {
	// Beta is how eagerly a value is refreshed before its TTL is over, in the background: 2 is earlier than 1. The chance grows
	// as the end comes near, and with the time that the load takes. Default: 1; below 0 for never.
	Beta float64
	// Clone copies a value for each caller, so that callers may change theirs. Default: callers share the value.
	Clone func(V) V
	// Jitter is by what part of itself a TTL is shortened at most, at random, so that what was loaded together does not expire
	// together. Default: 0.1; below 0 for none.
	Jitter float64
	// MaxEntries is how many entries are kept at most. Default: 10 000.
	MaxEntries int
	// Name is the Name of events. Default: "singleflight".
	Name string
	// NotFound tells which errors of the load say that there is no value. Default: those that wrap ErrNotFound.
	NotFound func(error) bool
	// NotFoundTTL is how long such an error is remembered, and returned without a load. Default: 0, not at all.
	NotFoundTTL time.Duration
	// Observer is told of events. Default: silent.
	Observer holdfast.Observer
	// SoftTTL is the age from which a value is still served, and refreshed in the background. Default: the TTL, so that it is
	// refreshed by Beta alone.
	SoftTTL time.Duration
	// StaleIfError is how much longer than the TTL a value is served while loads fail. Default: 0, callers get the error.
	StaleIfError time.Duration
	// TTL is the age from which callers wait for a load. It counts from the beginning of the load that the value is from: one that
	// takes longer is shared by who waits, and not kept. Default: 1 minute.
	TTL time.Duration
}

func (o *CacheOptions[V]) withDefaults() CacheOptions[V] {
	var filled CacheOptions[V]
	if o != nil {
		filled = *o
	}
	filled.Beta = cmp.Or(filled.Beta, 1)
	filled.Jitter = cmp.Or(filled.Jitter, 0.1)
	filled.MaxEntries = cmp.Or(filled.MaxEntries, 10_000)
	filled.TTL = cmp.Or(filled.TTL, time.Minute)
	filled.SoftTTL = cmp.Or(filled.SoftTTL, filled.TTL)
	if filled.NotFound == nil {
		filled.NotFound = func(err error) bool { return errors.Is(err, ErrNotFound) }
	}
	return filled
}

func (o *CacheOptions[V]) check() error {
	switch {
	case o.TTL < 0 || o.SoftTTL < 0 || o.NotFoundTTL < 0 || o.StaleIfError < 0:
		return fmt.Errorf("%w: a duration of CacheOptions is below 0", ErrInvalid)
	case o.SoftTTL > o.TTL:
		return fmt.Errorf("%w: CacheOptions.SoftTTL is longer than TTL: swap them", ErrInvalid)
	case o.MaxEntries < 0:
		return fmt.Errorf("%w: CacheOptions.MaxEntries is below 0", ErrInvalid)
	case o.Jitter > 1 || o.Jitter != o.Jitter || o.Beta != o.Beta:
		return fmt.Errorf("%w: CacheOptions.Jitter is above 1, or it or Beta is not a number", ErrInvalid)
	}
	return nil
}

// remembers reports whether the error of a load is kept.
func (o *CacheOptions[V]) remembers(err error) bool { return o.NotFoundTTL > 0 && o.NotFound(err) }

func (o *CacheOptions[V]) beta() float64 { return max(o.Beta, 0) }
