package wake

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/jitter"
)

// A Waiter waits for one key. It is for one goroutine.
type Waiter struct {
	line  *Line
	hub   *hub
	key   string
	at    *place
	woken <-chan struct{} // that of the time before the waiter looked last
	looks int

	turn  chan struct{} // nil of one who does not wait in turn; closed when it is
	first bool          // it is closed; guarded by the hub
}

// Join begins to wait for key. Whoever looks after Join, and after each [Waiter.Await], misses nothing that happens later. The
// caller must Leave.
func (l *Line) Join(key string) *Waiter {
	h := l.enter()
	h.mu.Lock()
	defer h.mu.Unlock()
	at := h.place(l, key)
	at.waiting++
	h.waiting++
	h.begin()
	return &Waiter{line: l, hub: h, key: key, at: at, woken: at.woken}
}

// Waiting tells how many of this process wait for key.
func (l *Line) Waiting(key string) int {
	hubs.RLock()
	h := hubs.of[l.pool]
	hubs.RUnlock()
	if h == nil {
		return 0
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if c := h.channels[l.channel]; c != nil && c.places[key] != nil {
		return c.places[key].waiting
	}
	return 0
}

// Leave ends the wait.
func (w *Waiter) Leave() {
	w.hub.leave(w)
	w.hub.exit()
}

// Await waits until key is woken, or until the pause is over. It returns the cause of the end of ctx if that comes first.
func (w *Waiter) Await(ctx context.Context, pause time.Duration) (woken bool, err error) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-w.woken:
		woken, w.looks = true, 0
	case <-timer.C:
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	w.look()
	return woken, nil
}

// look comes before the caller looks: what wakes it from here on is news.
func (w *Waiter) look() {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	w.woken = w.at.woken
}

// Hears reports whether notifications arrive, or may do soon: only then there is sense in asking others to notify.
func (w *Waiter) Hears() bool {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	return w.hub.listening
}

// Pause returns how long to wait before looking without having been woken: about the longest pause where notifications arrive, and
// else one that begins near the shortest and doubles with each look.
func (w *Waiter) Pause(shortest, longest time.Duration) time.Duration {
	w.hub.mu.Lock()
	proved := w.hub.proved
	w.hub.mu.Unlock()
	if proved {
		return longest/2 + jitter.Full(longest/2, longest/2, 1)
	}
	w.looks++
	return jitter.Full(shortest, longest, w.looks)
}
