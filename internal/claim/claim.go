// Package claim keeps claims alive that run out unless they are renewed: leases, jobs, steps. What a process holds is renewed
// together, many in one request.
package claim

import (
	"math/rand/v2"
	"sync"
	"time"
)

// A Renewer renews claims until they are removed. It has a timer while there are claims, and a goroutine for each request under
// way, so that a request which hangs delays no other. It is safe for concurrent use.
type Renewer[C comparable] struct {
	every time.Duration
	most  int
	renew func(batch []C) []time.Duration

	mu    sync.Mutex // guards what follows
	due   map[C]time.Time
	timer *time.Timer // nil before the first claim
	next  time.Time   // when it runs; zero if it does not
}

// New returns a renewer of claims that are renewed about every so often, at most so many in one request. renew makes the
// request, and returns for each of the batch, in its order, when to renew it again: [Renewer.Interval] after a success, sooner
// after a failure. It must end before the claims do, and may call Remove.
func New[C comparable](every time.Duration, most int, renew func(batch []C) (again []time.Duration)) *Renewer[C] {
	return &Renewer[C]{every: every, most: most, renew: renew, due: map[C]time.Time{}}
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
	r.visitAt(r.due[c])
}

// Remove has c renewed no more. A request that is under way is not stopped.
func (r *Renewer[C]) Remove(c C) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.due, c) // the timer finds nothing: to stop and to set it each time would cost more than the claim
}

// Any reports whether is holds for one of the claims. It looks at all of them.
func (r *Renewer[C]) Any(is func(c C) bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.due {
		if is(c) {
			return true
		}
	}
	return false
}

// visitAt lets visit run at that time, or sooner. The mutex is held.
func (r *Renewer[C]) visitAt(at time.Time) {
	if !r.next.IsZero() && !at.Before(r.next) {
		return
	}
	r.next = at
	if r.timer == nil {
		r.timer = time.AfterFunc(time.Until(at), r.visit)
		return
	}
	r.timer.Reset(time.Until(at))
}

// visit sends what is due.
func (r *Renewer[C]) visit() {
	batch := r.take()
	for len(batch) > 0 {
		n := min(len(batch), r.most)
		go r.send(batch[:n:n])
		batch = batch[n:]
	}
}

// take returns what is due, and with it what will be before half of the interval is over: so all claims come to be renewed
// together. Those are due no more until they were sent.
func (r *Renewer[C]) take() (batch []C) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next = time.Time{}
	now := time.Now()
	until := now // what is taken
	for _, at := range r.due {
		if !at.IsZero() && !at.After(now) {
			until = now.Add(r.every / 2)
		}
	}
	for c, at := range r.due {
		switch {
		case at.IsZero():
		case until != now && at.Before(until):
			batch = append(batch, c)
			r.due[c] = time.Time{}
		default:
			r.visitAt(at)
		}
	}
	return batch
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
			r.visitAt(r.due[c])
		}
	}
}
