package wire

import "sync"

type action int

const (
	watch action = iota
	cutBefore
	cutReply
	holdReply
)

// A Hook is something to do at a message of a client. Those that break something do it once, unless [Hook.Always].
type Hook struct {
	match  Match
	action action
	hit    chan struct{} // closed at the first hit
	free   chan struct{} // closed by Release

	mu       sync.Mutex // guards all below
	hits     int
	always   bool
	disarmed bool
	released bool
}

// Watch counts the messages that match.
func (p *Proxy) Watch(match Match) *Hook { return p.hook(match, watch).Always() }

// CutBefore breaks the connection of the message that matches. The server sees what came before it, never the message.
func (p *Proxy) CutBefore(match Match) *Hook { return p.hook(match, cutBefore) }

// CutReplyTo lets the server do what the message asks for and breaks the connection before the reply reaches the client,
// together with the replies to all that was sent in the same round trip.
func (p *Proxy) CutReplyTo(match Match) *Hook { return p.hook(match, cutReply) }

// HoldReplyTo holds that reply back until [Hook.Release].
func (p *Proxy) HoldReplyTo(match Match) *Hook { return p.hook(match, holdReply) }

func (p *Proxy) hook(match Match, a action) *Hook {
	h := &Hook{match: match, action: a, hit: make(chan struct{}), free: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hooks = append(p.hooks, h)
	return h
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
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-h.hit:
	default:
		close(h.hit)
	}
}
