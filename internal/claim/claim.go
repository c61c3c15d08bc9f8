// Package claim keeps claims alive that run out unless they are renewed: leases, jobs, steps. What a process holds is renewed
// together, many in one request.
package claim

import (
	"math/rand/v2"
	"sync"
	"time"
)

// A Renewer renews claims until they are removed. It has one goroutine while there are claims, and one more for each request
// under way, so that a request which hangs delays no other. It is safe for concurrent use.
type Renewer[C comparable] struct {
	every time.Duration
	most  int
	renew func(batch []C) []time.Duration

	mu      sync.Mutex // guards what follows
	due     map[C]time.Time
	running bool
	changed chan struct{} // a claim was added, removed or sent
}

// New returns a renewer of claims that are renewed about every so often, at most so many in one request. renew makes the
// request, and returns for each of the batch, in its order, when to renew it again: [Renewer.Interval] after a success, sooner
// after a failure. It must end before the claims do, and may call Remove.
func New[C comparable](every time.Duration, most int, renew func(batch []C) (again []time.Duration)) *Renewer[C] {
	return &Renewer[C]{every: every, most: most, renew: renew, due: map[C]time.Time{}, changed: make(chan struct{}, 1)}
}

// Interval is how long to wait before a renewal: as long as New was told, give or take a tenth, so that processes which
// started together drift apart.
func (r *Renewer[C]) Interval() time.Duration {
	tenth := int64(r.every / 10)
	return r.every - time.Duration(tenth) + time.Duration(rand.Int64N(2*tenth+1))
}

// Add has c renewed for the first time after in. A claim that is there already is then due at that time.
func (r *Renewer[C]) Add(c C, in time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.due[c] = time.Now().Add(in)
	if !r.running {
		r.running = true
		go r.run()
		return
	}
	r.nudge()
}

// Remove has c renewed no more. A request that is under way is not stopped.
func (r *Renewer[C]) Remove(c C) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.due[c]; ok {
		delete(r.due, c)
		r.nudge()
	}
}

func (r *Renewer[C]) nudge() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// run sends what is due until there are no claims left.
func (r *Renewer[C]) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		batch, next, more := r.take()
		if !more {
			return
		}
		for len(batch) > 0 {
			n := min(len(batch), r.most)
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

// take returns what is due, or will be before half of the interval is over, and when to come again: so all claims come to be
// renewed together. Those are due no more until they were sent.
func (r *Renewer[C]) take() (batch []C, next time.Duration, more bool) {
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
	for c, at := range r.due {
		if !at.IsZero() && at.Before(now.Add(r.every/2)) {
			batch = append(batch, c)
			r.due[c] = time.Time{}
		}
	}
	return batch, 0, true
}

// send renews a batch, and says when each of it is due again.
func (r *Renewer[C]) send(batch []C) {
	again := r.renew(batch)
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for i, c := range batch {
		if _, still := r.due[c]; still {
			r.due[c] = now.Add(again[i])
		}
	}
	r.nudge()
}
