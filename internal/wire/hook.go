package wire

import (
	"sync"
	"time"
)

type action int

const (
	watch action = iota
	cutBefore
	swallow
	late
	trickle
	cutReply
	holdReply
	watchReply
	lateReply
	trickleReply
)

// reply tells the actions that wait for the reply of the server.
func (a action) reply() bool { return a >= cutReply }

// A Hook is something to do at a message. Those that break something do it once, unless [Hook.Always].
type Hook struct {
	match  Match
	action action
	delay  time.Duration
	then   func()
	hit    chan struct{} // closed at the first hit
	free   chan struct{} // closed by Release

	mu       sync.Mutex // guards all below
	hits     int
	always   bool
	disarmed bool
	released bool
}

func newHook(match Match, a action) *Hook {
	return &Hook{match: match, action: a, hit: make(chan struct{}), free: make(chan struct{})}
}

func (p *Proxy) hook(match Match, a action) *Hook { return p.arm(newHook(match, a)) }

// arm makes h act from now on.
func (p *Proxy) arm(h *Hook) *Hook {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hooks = append(p.hooks, h)
	return h
}

// delayed is hook for what delays.
func (p *Proxy) delayed(match Match, a action, d time.Duration) *Hook {
	h := newHook(match, a)
	h.delay = d
	return p.arm(h)
}

// Always makes the hook act at every message that matches, and returns it.
func (h *Hook) Always() *Hook {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.always = true
	return h
}

// Disarm ends the hook's work. What it holds stays held.
func (h *Hook) Disarm() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.disarmed = true
}

// Hits is how many messages have matched while the hook was armed.
func (h *Hook) Hits() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.hits
}

// Hit is closed once the hook has done its work for the first time. For the reply to a message that is after the server
// sent it, so that the server has done what it was asked.
func (h *Hook) Hit() <-chan struct{} { return h.hit }

// Release lets go of the replies that are held back, and of those to come.
func (h *Hook) Release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.released {
		h.released = true
		close(h.free)
	}
}

// take reports whether the hook is to act at m.
func (h *Hook) take(m Message) bool {
	if !h.match(m) {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.disarmed || h.hits > 0 && !h.always {
		return false
	}
	h.hits++
	return true
}

func (h *Hook) done() {
	if h.then != nil {
		h.then()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-h.hit:
	default:
		close(h.hit)
	}
}
