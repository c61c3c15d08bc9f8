package wake

import (
	"context"
	"sync"
)

// A hub is what all lines of one pool share while somebody waits.
type hub struct {
	pool   any
	uses   int // guarded by hubs: the waiters, the goroutine that listens, and the rest after it
	open   func(ctx context.Context) (Conn, error)
	notify func(ctx context.Context, channel, payload string) error
	echo   string // the channel on which it hears itself

	mu        sync.Mutex // guards all below
	channels  map[string]*channel
	waiting   int
	listening bool               // a goroutine does, or tries to
	changed   bool               // the channels, or whether anybody waits
	interrupt context.CancelFunc // ends what the goroutine waits for
	proved    bool               // notifications arrive
	told      bool               // that they do not
	failures  int                // in a row
	rest      *rest
}

// A channel is one for which somebody waits.
type channel struct {
	places map[string]*place
	lines  map[*Line]int // how many wait by each
}

// A place is where those who wait for one key meet.
type place struct {
	waiting int
	woken   chan struct{} // closed by the next wake-up
	queue   []*Waiter     // those in turn
}

func (p *place) wake() {
	close(p.woken)
	p.woken = make(chan struct{})
}

// place returns that of key, for one who waits by l. The mutex is held.
func (h *hub) place(l *Line, key string) *place {
	c := h.channels[l.channel]
	if c == nil {
		c = &channel{places: map[string]*place{}, lines: map[*Line]int{}}
		h.channels[l.channel] = c
		h.change()
	}
	c.lines[l]++
	p := c.places[key]
	if p == nil {
		p = &place{woken: make(chan struct{})}
		c.places[key] = p
	}
	return p
}

func (h *hub) leave(w *Waiter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.channels[w.line.channel]
	w.at.quit(w)
	if w.at.waiting--; w.at.waiting == 0 {
		delete(c.places, w.key)
	}
	if c.lines[w.line]--; c.lines[w.line] == 0 {
		delete(c.lines, w.line)
	}
	if len(c.places) == 0 {
		delete(h.channels, w.line.channel)
	}
	if h.waiting--; h.waiting == 0 {
		h.change()
	}
}

// change has the goroutine that listens look what there is to listen to. The mutex is held.
func (h *hub) change() {
	h.changed = true
	if h.interrupt != nil {
		h.interrupt()
	}
}

// heard wakes those who wait for key.
func (h *hub) heard(name, key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c := h.channels[name]; c != nil && c.places[key] != nil {
		c.places[key].wake()
	}
}

// wakeAll wakes all who wait on a channel: what came before is lost.
func (h *hub) wakeAll(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c := h.channels[name]; c != nil {
		for _, p := range c.places {
			p.wake()
		}
	}
}

// tell says, once, that notifications do not arrive.
func (h *hub) tell(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.told || h.waiting == 0 {
		return
	}
	h.told = true
	for _, c := range h.channels {
		for l := range c.lines {
			if l.told != nil {
				go l.told(err)
			}
		}
	}
}
