// Package flight lets concurrent calls with one key share what the first of them comes to. The first leads: it does the
// work on its own goroutine and context. The others wait, each on its own context, and hold nothing meanwhile.
package flight

import "sync"

// A Group holds the flights that are under way. The zero value is ready to use. It is safe for concurrent use.
type Group[K comparable, L, R any] struct {
	mu      sync.Mutex // guards flights
	flights map[K]*Flight[L, R]
}

// A Flight is one leader's call.
type Flight[L, R any] struct {
	// Lead is what the leader brought, for the others to compare with what they have.
	Lead L

	working chan struct{}
	landed  chan struct{}
	begun   bool // by the leader alone
	joined  bool // somebody waits; guarded by the group
	result  R    // written before landed is closed
	ok      bool
}

// Join returns the flight of key. If there is none it begins one that the caller leads, and must [Group.Land].
func (g *Group[K, L, R]) Join(key K, lead L) (f *Flight[L, R], leads bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if f, ok := g.flights[key]; ok {
		f.joined = true
		return f, false
	}
	f = &Flight[L, R]{Lead: lead, working: make(chan struct{}), landed: make(chan struct{})}
	if g.flights == nil {
		g.flights = map[K]*Flight[L, R]{}
	}
	g.flights[key] = f
	return f, true
}

// Land ends the flight of key. share is called if anybody waits for what it returns; ok tells that there is something to
// share. If there is not, each of the others is on its own.
func (g *Group[K, L, R]) Land(key K, f *Flight[L, R], share func() (result R, ok bool)) {
	g.mu.Lock()
	if g.flights[key] == f {
		delete(g.flights, key)
	}
	joined := f.joined
	g.mu.Unlock()
	defer close(f.landed)
	if joined {
		f.result, f.ok = share()
	}
}

// Forget keeps later calls out of the flight of key: they begin one of their own. Those that wait for it go on waiting.
func (g *Group[K, L, R]) Forget(key K) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.flights, key)
}

// ForgetAll is [Group.Forget] for all keys.
func (g *Group[K, L, R]) ForgetAll() {
	g.mu.Lock()
	defer g.mu.Unlock()
	clear(g.flights)
}

// Work tells the others that the leader is past asking and at work. Only the leader calls it, as often as it likes.
func (f *Flight[L, R]) Work() {
	if !f.begun {
		f.begun = true
		close(f.working)
	}
}

// Working is closed once the leader is at work.
func (f *Flight[L, R]) Working() <-chan struct{} { return f.working }

// Landed is closed once the flight has ended.
func (f *Flight[L, R]) Landed() <-chan struct{} { return f.landed }

// Result is what the leader shared, once the flight has landed.
func (f *Flight[L, R]) Result() (result R, ok bool) { return f.result, f.ok }
