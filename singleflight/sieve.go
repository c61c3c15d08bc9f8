package singleflight

import (
	"container/list"
	"sync"
	"time"
)

// A sieve keeps the entries, up to a limit. What goes is chosen by "SIEVE is Simpler than LRU", NSDI 2024: a hand goes from the
// oldest to the newest, spares what was seen since it came by, and takes the first that was not. To see is to set a flag, so
// readers do not lock each other out.
type sieve[K comparable, V any] struct {
	limit int

	mu    sync.RWMutex // guards all below
	kept  map[K]*list.Element
	order list.List // of *slot, the newest in front
	hand  *list.Element
}

type slot[K comparable, V any] struct {
	key   K
	entry *entry[V]
}

// get returns the entry of key, fresh or not, or nil.
func (s *sieve[K, V]) get(key K) *entry[V] {
	s.mu.RLock()
	defer s.mu.RUnlock()
	element, ok := s.kept[key]
	if !ok {
		return nil
	}
	e := element.Value.(*slot[K, V]).entry
	if !e.seen.Load() { // most often it is, and a write would cost all readers
		e.seen.Store(true)
	}
	return e
}

// put keeps the entry if it is current, which it asks under the lock, and reports that.
func (s *sieve[K, V]) put(key K, e *entry[V], current func() bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !current() {
		return false
	}
	if element, ok := s.kept[key]; ok {
		element.Value.(*slot[K, V]).entry = e
		return true
	}
	if key != key { // NaN, which no map finds again
		return true
	}
	for len(s.kept) >= s.limit {
		s.evict()
	}
	if s.kept == nil {
		s.kept = map[K]*list.Element{}
	}
	s.kept[key] = s.order.PushFront(&slot[K, V]{key, e})
	return true
}

// rest puts the next load of key off.
func (s *sieve[K, V]) rest(key K, until time.Time) {
	if e := s.get(key); e != nil {
		e.resume.Store(until.UnixNano())
	}
}

func (s *sieve[K, V]) evict() {
	for {
		if s.hand == nil {
			s.hand = s.order.Back()
		}
		at := s.hand
		s.hand = at.Prev()
		if at.Value.(*slot[K, V]).entry.seen.Swap(false) {
			continue
		}
		s.drop(at)
		return
	}
}

func (s *sieve[K, V]) drop(element *list.Element) {
	if s.hand == element {
		s.hand = element.Prev()
	}
	delete(s.kept, element.Value.(*slot[K, V]).key)
	s.order.Remove(element)
}

func (s *sieve[K, V]) remove(key K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if element, ok := s.kept[key]; ok {
		s.drop(element)
	}
}

func (s *sieve[K, V]) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.kept)
	s.order.Init()
	s.hand = nil
}

func (s *sieve[K, V]) len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.kept)
}
