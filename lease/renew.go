package lease

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// maxRenewals bounds how many leases one request renews.
const maxRenewals = 1000

// interval is how long to wait before a renewal: RenewEvery, give or take a tenth, so that processes which started together
// drift apart.
func (c *core) interval() time.Duration {
	tenth := int64(c.o.RenewEvery / 10)
	return c.o.RenewEvery - time.Duration(tenth) + time.Duration(rand.Int64N(2*tenth+1))
}

// renew renews what is due in one request, and returns when to come again for each. The request has half of the time that is
// left, so that one which hangs leaves time for another.
func (c *core) renew(handles []*Advisory) (again []time.Duration) {
	again = make([]time.Duration, len(handles))
	var terms []Term
	var of []int // indices of handles
	patience := c.o.TTL
	for i, h := range handles {
		if h.Check() != nil { // the machine slept, or it ended just before it was added
			c.renewer.remove(h)
			continue
		}
		terms, of = append(terms, h.term), append(of, i)
		patience = min(patience, time.Until(h.Deadline())/2)
	}
	if len(terms) == 0 {
		return again
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	anchor := c.clock.read()
	results, err := c.store.Renew(ctx, terms)
	if err == nil && len(results) != len(terms) {
		err = fmt.Errorf("lease: the store answered %d of %d renewals", len(results), len(terms))
	}
	together := c.interval()
	for n, i := range of {
		again[i] = together
		if err != nil {
			again[i] = handles[i].unrenewed(err)
			continue
		}
		handles[i].renewed(anchor, results[n])
	}
	return again
}

// A renewer renews all leases of a core, many in one request. It has one goroutine while there are leases, and one more for
// each request under way, so that a request which hangs delays no other.
type renewer struct {
	renew func([]*Advisory) []time.Duration

	mu      sync.Mutex // guards what follows
	due     map[*Advisory]time.Time
	running bool
	changed chan struct{} // a lease was added
}

func (r *renewer) add(h *Advisory, in time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.due == nil {
		r.due, r.changed = map[*Advisory]time.Time{}, make(chan struct{}, 1)
	}
	r.due[h] = time.Now().Add(in)
	if !r.running {
		r.running = true
		go r.run()
		return
	}
	r.nudge()
}

func (r *renewer) remove(h *Advisory) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.due[h]; ok {
		delete(r.due, h)
		r.nudge()
	}
}

func (r *renewer) nudge() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// run sends what is due until there are no leases left.
func (r *renewer) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		batch, next, more := r.take()
		if !more {
			return
		}
		for len(batch) > 0 {
			n := min(len(batch), maxRenewals)
			go r.send(batch[:n:n])
			batch = batch[n:]
		}
		timer.Reset(next)
		select {
		case <-timer.C:
		case <-r.changed:
		}
	}
}

// idle is how long the renewer sleeps when all that there is, is under way.
const idle = time.Hour

// take returns what is due, or will be before half of the interval is over, and when to come again: so all leases come to be
// renewed together. Those are due no more until they were sent.
func (r *renewer) take() (batch []*Advisory, next time.Duration, more bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.due) == 0 {
		r.running = false
		return nil, 0, false
	}
	now, first := time.Now(), time.Time{}
	for _, at := range r.due {
		if !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	switch {
	case first.IsZero():
		return nil, idle, true
	case first.After(now):
		return nil, first.Sub(now), true
	}
	for h, at := range r.due {
		if !at.IsZero() && at.Before(now.Add(h.core.o.RenewEvery/2)) {
			batch = append(batch, h)
			r.due[h] = time.Time{}
		}
	}
	return batch, 0, true
}

// send renews a batch, and says when each of it is due again.
func (r *renewer) send(batch []*Advisory) {
	again := r.renew(batch)
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for i, h := range batch {
		if _, still := r.due[h]; still {
			r.due[h] = now.Add(again[i])
		}
	}
	r.nudge()
}
