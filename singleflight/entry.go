package singleflight

import (
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// pause is how long callers who can be served are not made to wait for a load again after one has failed.
const pause = time.Second

// An entry is what a load came to. But for the atomics it does not change.
type entry[V any] struct {
	value V
	err   error // that there is none
	soft  time.Time
	hard  time.Time
	stale time.Time     // until when it is served if loads fail
	delta time.Duration // what the load took

	seen   atomic.Bool  // since the sieve's hand came by
	resume atomic.Int64 // when to load again after a failure, in ns of Unix time
}

// entry is what a load came to. What was read at its beginning may be old at its end, so that the age counts from the former.
func (o *CacheOptions[V]) entry(value V, err error, begun time.Time, took time.Duration) *entry[V] {
	off := 0.0
	if o.Jitter > 0 {
		off = o.Jitter * rand.Float64()
	}
	span := func(d time.Duration) time.Time { return begun.Add(d - time.Duration(float64(d)*off)) }
	if err != nil {
		end := span(o.NotFoundTTL)
		return &entry[V]{value: value, err: err, soft: end, hard: end, stale: end, delta: took}
	}
	hard := span(o.TTL)
	return &entry[V]{value: value, soft: span(o.SoftTTL), hard: hard, stale: hard.Add(o.StaleIfError), delta: took}
}

// due reports whether to refresh an entry that is still served. Before its end it does so by chance, which is XFetch of
// "Optimal Probabilistic Cache Stampede Prevention", VLDB 2015: when delta * beta * -ln(random) reaches the time that is left.
func (e *entry[V]) due(now time.Time, beta float64) bool {
	if e.rests(now) {
		return false
	}
	return !now.Before(e.soft) || beta > 0 && float64(e.delta)*beta*rand.ExpFloat64() >= float64(e.hard.Sub(now))
}

// serves reports whether the value is better than an error.
func (e *entry[V]) serves(now time.Time) bool { return e.err == nil && now.Before(e.stale) }

// rests reports whether a load has just failed, while the value can be served.
func (e *entry[V]) rests(now time.Time) bool {
	return now.UnixNano() < e.resume.Load() && now.Before(e.stale)
}
