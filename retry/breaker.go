package retry

import (
	"sync"
	"sync/atomic"
	"time"
)

// BreakerOptions are the settings of a [Breaker]. The zero value is ready to use.
type BreakerOptions struct {
	// Failures is how many attempts in a row must fail to open the breaker. Default: 10.
	Failures int
	// OpenFor is how long it stays open before it lets a probe through. Default: 5 s.
	OpenFor time.Duration
	// ProbeTimeout is how long a probe keeps others out; then the next attempt is one. It does not end the probe. Default:
	// 10 s.
	ProbeTimeout time.Duration
}

// A Breaker keeps attempts off a target while it is down: after some failures in a row it refuses them for a time, then lets
// one through to see. Give one to the policies of each target. What counts as a failure is an error that may pass; a refusal
// by the target, such as a 404, shows that it is up. The end of a caller's context shows nothing, its deadline included: set
// Options.AttemptTimeout, so that a target that hangs is seen. It is safe for concurrent use.
type Breaker struct {
	o BreakerOptions
	// troubled is false while the breaker is closed and no attempt failed since the last success: then nothing is to be done.
	troubled atomic.Bool

	mu         sync.Mutex // guards the fields below
	failures   int
	openUntil  time.Time // zero while closed
	probe      uint64    // the number of the last probe
	probeUntil time.Time // zero if no probe is under way
}

// NewBreaker returns a breaker that is closed. What is below 0 in o counts as 0.
func NewBreaker(o *BreakerOptions) *Breaker {
	b := &Breaker{}
	if o != nil {
		b.o = *o
	}
	if b.o.Failures <= 0 {
		b.o.Failures = 10
	}
	if b.o.OpenFor <= 0 {
		b.o.OpenFor = 5 * time.Second
	}
	if b.o.ProbeTimeout <= 0 {
		b.o.ProbeTimeout = 10 * time.Second
	}
	return b
}

// Open reports whether attempts are refused now.
func (b *Breaker) Open() bool { return !b.admits(time.Now()) }

// A permit is the leave for one attempt: the number of the probe that it is, or 0.
type permit uint64

// A result is what an attempt showed of the target.
type result int

const (
	neutral result = iota
	success
	failure
)

// A change is what a result did to the breaker.
type change int

const (
	unchanged change = iota
	opened
	closed
)

// admits reports whether an attempt at that time would be let through, as things stand. A nil breaker is always closed.
func (b *Breaker) admits(then time.Time) bool {
	if b == nil || !b.troubled.Load() {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.free(then)
}

// free needs mu.
func (b *Breaker) free(then time.Time) bool {
	return !then.Before(b.openUntil) && !then.Before(b.probeUntil)
}

// admit lets an attempt through, or not. Whoever gets a permit has to call done.
func (b *Breaker) admit() (permit, bool) {
	if !b.troubled.Load() {
		return 0, true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.openUntil.IsZero() {
		return 0, true
	}
	now := time.Now()
	if !b.free(now) {
		return 0, false
	}
	b.probe++
	b.probeUntil = now.Add(b.o.ProbeTimeout)
	return permit(b.probe), true
}

// done takes the result of an attempt.
func (b *Breaker) done(p permit, r result) change {
	if b == nil || r != failure && p == 0 && !b.troubled.Load() {
		return unchanged
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.openUntil.IsZero() {
		return b.whileClosed(r)
	}
	current := p != 0 && uint64(p) == b.probe
	switch {
	case r == success && p != 0: // a probe that others no longer wait for shows it just as well
		b.reset()
		return closed
	case r == failure && current:
		b.open()
	case current:
		b.probeUntil = time.Time{}
	}
	return unchanged // what began before it opened shows nothing new
}

func (b *Breaker) whileClosed(r result) change {
	switch r {
	case success:
		b.reset()
	case failure:
		b.troubled.Store(true)
		if b.failures++; b.failures >= b.o.Failures {
			b.open()
			return opened
		}
	}
	return unchanged
}

// open needs mu.
func (b *Breaker) open() {
	b.openUntil, b.probeUntil = time.Now().Add(b.o.OpenFor), time.Time{}
}

// reset needs mu.
func (b *Breaker) reset() {
	b.failures, b.openUntil, b.probeUntil = 0, time.Time{}, time.Time{}
	b.troubled.Store(false)
}
