package flight

import "sync"

// A Flight is one leader's call.
type Flight[L, R any] struct {
	// Lead is what the leader brought, for the others to see.
	Lead L

	mu       *sync.Mutex   // the shard's: guards all below but the result
	callers  int           // that wait, the leader among them
	detached bool          // nobody joins it
	begun    bool          // the leader is at work
	down     bool          // it has landed
	working  chan struct{} // made for the first who asks
	landed   chan struct{} // the same

	result R // written before landed is closed
	ok     bool
}

// Work tells the others that the leader is past asking and at work. Only the leader calls it, as often as it likes.
func (f *Flight[L, R]) Work() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.begun && f.working != nil {
		close(f.working)
	}
	f.begun = true
}

// Working is closed once the leader is at work.
func (f *Flight[L, R]) Working() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return signal(&f.working, f.begun)
}

// Landed is closed once the flight has ended.
func (f *Flight[L, R]) Landed() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return signal(&f.landed, f.down)
}

// signal makes a channel for the first who asks.
func signal(channel *chan struct{}, given bool) <-chan struct{} {
	if *channel == nil {
		*channel = make(chan struct{})
		if given {
			close(*channel)
		}
	}
	return *channel
}

// Current reports whether calls still join the flight, or would: it was not forgotten, nor left by all.
func (f *Flight[L, R]) Current() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.detached
}

// Result is what the leader shared, once the flight has landed.
func (f *Flight[L, R]) Result() (result R, ok bool) { return f.result, f.ok }

func (f *Flight[L, R]) land() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = true
	if f.landed != nil {
		close(f.landed)
	}
}
