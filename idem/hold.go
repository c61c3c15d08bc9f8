package idem

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/jitter"
)

// maxRenewals bounds how many leases one request renews.
const maxRenewals = 1000

// errReturned ends the lease of a closure that has returned, and its context.
var errReturned = errors.New("idem: the closure has returned")

// hold begins an execution that was granted by a request sent at anchor.
func (l *leased) hold(ctx context.Context, c *call, r Record, anchor clock.Moment) *Run {
	run := &Run{l: l, c: c, term: Term{ID: r.ID, Nonce: r.Nonce, Epoch: r.Epoch}, anchor: anchor, input: r.Input, steps: steps{stored: r.Steps}}
	c.attempt = r.Attempts
	run.ctx, run.cancel = context.WithCancelCause(l.enter(ctx, c, nil))
	l.renewer.Add(run, min(l.renewer.Interval(), max(0, l.lo.RenewEvery-l.clock.Since(anchor))))
	return run
}

// usable is how long after it was asked for a lease is relied on.
func (l *leased) usable() time.Duration { return l.lo.Lease - l.lo.Margin }

// Check tells, by the clocks of this machine and without asking the store, whether the key is still that of the execution: nil, or a
// [*LeaseLostError]. [Step] does it before each call.
func (r *Run) Check() error {
	r.mu.Lock()
	ended, since, mono := r.ended, r.l.clock.Since(r.anchor), r.l.clock.Now().Sub(r.anchor.At)
	failure, sealed := r.failure, r.sealed
	r.mu.Unlock()
	switch {
	case ended != nil:
		return ended
	case sealed || since < r.l.usable():
		return nil
	case mono < r.l.usable():
		return r.lose(Suspended, failure)
	}
	return r.lose(Unreachable, failure)
}

// watch sets the timer of the deadline. It runs before the first renewal: a short execution needs no timer.
func (r *Run) watch() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.timer == nil && r.ended == nil {
		r.timer = time.AfterFunc(r.l.usable()-r.l.clock.Since(r.anchor), r.expire)
	}
}

// expire runs when the deadline may have come, on a timer of its own: a request that hangs does not delay it.
func (r *Run) expire() {
	r.mu.Lock()
	left := r.l.usable() - r.l.clock.Since(r.anchor)
	if r.ended == nil && !r.sealed && left > 0 { // renewed meanwhile
		r.timer.Reset(left)
		r.mu.Unlock()
		return
	}
	r.mu.Unlock()
	_ = r.Check()
}

// lose ends r, and returns why it ended first.
func (r *Run) lose(reason LossReason, cause error) error {
	lost := &LeaseLostError{Name: r.c.key.Name, Epoch: r.term.Epoch, Reason: reason, Err: cause}
	first, why := r.end(lost)
	if first {
		r.l.observe(r.ctx, EventLost, r.c, lost)
	}
	return why
}

// end stops renewing and cancels, the first time. It returns why r ended.
func (r *Run) end(reason error) (first bool, why error) {
	r.l.renewer.Remove(r)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended != nil {
		return false, r.ended
	}
	r.ended = reason
	if r.timer != nil {
		r.timer.Stop()
	}
	r.cancel(reason)
	return true, reason
}

// seal tells that a transaction guards the key: the lease need not be renewed, and does not run out. unseal takes it back after a
// transaction that did not commit.
func (r *Run) seal() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sealed = true
}

func (r *Run) unseal() {
	r.mu.Lock()
	r.sealed = false
	r.mu.Unlock()
	r.l.renewer.Add(r, 0)
}

// renew renews what is due in one request, and returns when to come again for each. The request has half of the time that is
// left, so that one which hangs leaves time for another.
func (l *leased) renew(runs []*Run) (again []time.Duration) {
	again = make([]time.Duration, len(runs))
	var terms []Term
	var of []int // indices of runs
	patience := l.lo.Lease
	for i, r := range runs {
		r.watch()
		if r.Check() != nil {
			l.renewer.Remove(r)
			continue
		}
		terms, of = append(terms, r.term), append(of, i)
		patience = min(patience, max(r.left()/2, l.lo.Margin/2))
	}
	if len(terms) == 0 {
		return again
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	anchor := l.clock.Read()
	results, err := l.store.Renew(ctx, terms, l.lo.Lease)
	if err == nil && len(results) != len(terms) {
		err = fmt.Errorf("idem: the store answered %d of %d renewals", len(results), len(terms))
	}
	together := l.renewer.Interval()
	for n, i := range of {
		again[i] = together
		switch {
		case err != nil:
			again[i] = runs[i].unrenewed(err)
		case results[n] == RenewalLost:
			runs[i].gone()
		case results[n] == RenewalDone:
			runs[i].renewed(anchor)
		default:
			again[i] = jitter.Full(l.lo.Lease/100, l.lo.Lease/10, 3)
		}
	}
	return again
}

// left is how long the lease may still be relied on.
func (r *Run) left() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.l.usable() - r.l.clock.Since(r.anchor)
}

// gone takes in that the store knows the execution no more. One that is storing its answer hears of it there.
func (r *Run) gone() {
	r.mu.Lock()
	asking := r.sealed || r.storing
	r.mu.Unlock()
	if !asking {
		_ = r.lose(TakenOver, nil)
	}
}

// renewed takes in that a renewal which was sent at anchor was granted.
func (r *Run) renewed(anchor clock.Moment) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended == nil {
		r.anchor, r.failures, r.failure = anchor, 0, nil
		r.timer.Reset(r.l.usable() - r.l.clock.Since(anchor))
	}
}

// unrenewed takes in the error of a renewal, and returns how long to wait before the next one. The lease may have been renewed;
// the old deadline stands.
func (r *Run) unrenewed(err error) time.Duration {
	r.mu.Lock()
	r.failures++
	r.failure = err
	failures := r.failures
	r.mu.Unlock()
	c := *r.c
	c.attempt = failures
	r.l.observe(r.ctx, EventRenewFailed, &c, err)
	return jitter.Full(r.l.lo.Lease/100, r.l.lo.Lease/4, failures)
}
