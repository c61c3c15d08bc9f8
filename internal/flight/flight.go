// Package flight lets concurrent calls with one key share what the first of them comes to. The first leads: it does the
// work. The others wait, each on its own context, and hold nothing meanwhile.
package flight

import (
	"hash/maphash"
	"sync"
)

// shards is how many locks the keys are spread over, so that calls of different keys do not meet.
const shards = 64

var seed = maphash.MakeSeed()

// A Group holds the flights that are under way. The zero value is ready to use. It is safe for concurrent use.
type Group[K comparable, L, R any] struct {
	shards [shards]shard[K, L, R]
}

type shard[K comparable, L, R any] struct {
	mu       sync.Mutex                 // guards all below, and what its flights say it guards
	flights  map[K]*Flight[L, R]        // those that calls join
	detached map[*Flight[L, R]]struct{} // those that nobody joins any more, and that have not landed
	closed   bool
	_        [32]byte // a cache line for each
}

func (g *Group[K, L, R]) shard(key K) *shard[K, L, R] {
	if key != key { // NaN, whose hash is another each time
		return &g.shards[0]
	}
	return &g.shards[maphash.Comparable(seed, key)%shards]
}

// Join returns the flight of key. If there is none it begins one that the caller leads, and must [Group.Land]. lead makes
// what the leader brings; it is called under a lock. There is no flight in a group that is closed.
func (g *Group[K, L, R]) Join(key K, lead func() L) (f *Flight[L, R], leads bool) {
	s := g.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, false
	}
	if f, ok := s.flights[key]; ok {
		f.callers++
		return f, false
	}
	f = &Flight[L, R]{Lead: lead(), mu: &s.mu, callers: 1}
	switch {
	case key != key: // NaN, which no map finds again
		s.detach(f)
	case s.flights == nil:
		s.flights = map[K]*Flight[L, R]{key: f}
	default:
		s.flights[key] = f
	}
	return f, true
}

// Leave tells that one caller does not wait any more. It reports whether that was the last. Nobody joins the flight then: its
// leader may as well give up.
func (g *Group[K, L, R]) Leave(key K, f *Flight[L, R]) (last bool) {
	s := g.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	f.callers--
	if f.callers > 0 || f.down {
		return false
	}
	if s.flights[key] == f {
		s.forget(key)
	}
	return true
}

// Land ends the flight of key: nobody joins it from here on. share is called if anybody waits for what it returns; ok tells
// that there is something to share. If there is not, each of the others is on its own.
func (g *Group[K, L, R]) Land(key K, f *Flight[L, R], share func() (result R, ok bool)) {
	s := g.shard(key)
	s.mu.Lock()
	if s.flights[key] == f {
		delete(s.flights, key)
	} else {
		delete(s.detached, f)
	}
	alone := f.callers <= 1 && f.landed == nil
	f.down = alone
	s.mu.Unlock()
	if alone {
		return
	}
	defer f.land()
	f.result, f.ok = share()
}

// Forget keeps later calls out of the flight of key: they begin one of their own. Those that wait for it go on waiting.
func (g *Group[K, L, R]) Forget(key K) {
	s := g.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(key)
}

// ForgetAll is [Group.Forget] for all keys.
func (g *Group[K, L, R]) ForgetAll() {
	for i := range g.shards {
		s := &g.shards[i]
		s.mu.Lock()
		for key := range s.flights {
			s.forget(key)
		}
		s.mu.Unlock()
	}
}

// Close keeps flights from beginning, and returns those that are under way.
func (g *Group[K, L, R]) Close() (under []*Flight[L, R]) {
	for i := range g.shards {
		s := &g.shards[i]
		s.mu.Lock()
		s.closed = true
		for _, f := range s.flights {
			under = append(under, f)
		}
		for f := range s.detached {
			under = append(under, f)
		}
		s.mu.Unlock()
	}
	return under
}

func (s *shard[K, L, R]) forget(key K) {
	if f, ok := s.flights[key]; ok {
		delete(s.flights, key)
		s.detach(f)
	}
}

func (s *shard[K, L, R]) detach(f *Flight[L, R]) {
	f.detached = true
	if s.detached == nil {
		s.detached = map[*Flight[L, R]]struct{}{}
	}
	s.detached[f] = struct{}{}
}
