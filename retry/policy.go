package retry

import (
	"time"

	"github.com/cenkalti/backoff/v4"

	holdfast "github.com/holdfast-go/holdfast"
)

// NoLimit is an [Options].Attempts without a limit: the context, Options.Elapsed or Options.Budget has to end it.
const NoLimit = -1

// Options are the settings of a [Policy]. The zero value is ready to use.
type Options struct {
	// Attempts is how often an operation is run at most, the first time included. [NoLimit] sets no limit. Default: 3.
	Attempts int
	// AttemptTimeout ends the context of an attempt, with the cause [ErrAttemptTimeout]. It does not end a function that
	// ignores its context. Default: 0, none.
	AttemptTimeout time.Duration
	// BackOff makes the schedule of delays of one call, after its first failure: a BackOff holds state, so that each call
	// gets its own. A schedule that returns backoff.Stop ends the call with [ErrBackOff]. MaxDelay bounds its delays too.
	// Default: nil, full jitter: a random delay up to BaseDelay, doubled with each attempt.
	BackOff func() backoff.BackOff
	// BaseDelay is the longest delay before the second attempt. Default: 100 ms.
	BaseDelay time.Duration
	// Breaker keeps calls off a target that is down. It is not asked for what the target answered in good health. Default:
	// nil, none.
	Breaker *Breaker
	// Budget bounds the attempts beyond the first over all callers that share it. Default: nil, no such bound.
	Budget *Budget
	// Classify says what an error means. It must be safe for concurrent use. Default: [Classify].
	Classify func(error) Verdict
	// Elapsed is how long after the call an attempt may still begin. It does not cut an attempt off: give the context a
	// deadline for that. Default: 0, no limit but that of the context.
	Elapsed time.Duration
	// MaxDelay is the longest delay, also of what BackOff and the other side ask for. Default: 5 s.
	MaxDelay time.Duration
	// Name is the target in events. Default: "".
	Name string
	// Nested lets a call try again although it is part of an attempt of another one, and does not keep calls within its own
	// attempts from trying again: their numbers multiply. It saves the allocation of the mark. Default: false.
	Nested bool
	// Observer is told of events. Default: nil, silent.
	Observer holdfast.Observer
}

// A Policy is how operations on one target are tried again. It is immutable, and safe for concurrent use. A nil *Policy is
// one with the default Options.
type Policy struct {
	o Options
	// bare says that nothing has to be done around an attempt.
	bare bool
}

// standard is the policy of those who have none.
var standard = New(nil)

// New returns a policy. A limit, delay or timeout below 0 counts as 0, but for [NoLimit].
func New(o *Options) *Policy {
	p := &Policy{}
	if o != nil {
		p.o = *o
	}
	if p.o.Attempts == 0 || p.o.Attempts < NoLimit {
		p.o.Attempts = 3
	}
	if p.o.BaseDelay <= 0 {
		p.o.BaseDelay = 100 * time.Millisecond
	}
	if p.o.MaxDelay <= 0 {
		p.o.MaxDelay = 5 * time.Second
	}
	if p.o.Classify == nil {
		p.o.Classify = Classify
	}
	p.bare = p.o.AttemptTimeout <= 0 && p.o.Breaker == nil && p.o.Elapsed <= 0 && p.o.Observer == nil
	return p
}
