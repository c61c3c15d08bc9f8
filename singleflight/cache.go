package singleflight

import (
	"context"
	"errors"
	"time"
)

// A Cache keeps what a load comes to, and loads each key once at a time. It is safe for concurrent use.
type Cache[K comparable, V any] struct {
	load  func(ctx context.Context, key K) (V, error)
	o     CacheOptions[V]
	err   error // what is wrong with the options
	group Group[K, *entry[V]]
	kept  sieve[K, V]
}

// NewCache returns a cache of what load comes to. Nil options work. Options that cannot be used are reported by Get. The load
// gets the context of the flight, as with [Group.Do], and must read what is committed at the time.
func NewCache[K comparable, V any](load func(ctx context.Context, key K) (V, error), o *CacheOptions[V]) *Cache[K, V] {
	c := &Cache[K, V]{load: load, o: o.withDefaults()}
	c.err = c.o.check()
	c.group.o = Options{Name: c.o.Name, Observer: c.o.Observer}
	c.group.settle = c.settle
	c.kept.limit = c.o.MaxEntries
	return c
}

// Get returns the value of key from the cache, or else what a load comes to, which callers of the same key share.
//
// It returns the error of the load as it is, also one that is remembered; the cause of ctx; and what [Group.Do] returns.
func (c *Cache[K, V]) Get(ctx context.Context, key K) (V, error) {
	var none V
	if c.err != nil {
		return none, c.err
	}
	now := time.Now()
	e := c.kept.get(key)
	if e == nil || !now.Before(e.hard) {
		return c.wait(ctx, key, e)
	}
	kind := EventHit
	if e.due(now, c.o.beta()) {
		c.refresh(ctx, key, e)
	}
	if !now.Before(e.soft) {
		kind = EventStale
	}
	observe(ctx, &c.group.o, kind, key, 0, e.err)
	if e.err != nil {
		return e.value, e.err // there is nothing to copy
	}
	return c.copy(e.value), nil
}

// Invalidate forgets keys: callers from here on get what a load comes to that begins after it. A load under way is not stored.
// Call it after the change is committed, not before.
func (c *Cache[K, V]) Invalidate(keys ...K) {
	for _, key := range keys {
		c.group.Invalidate(key) // first: what settles after it sees that it is forgotten
		c.kept.remove(key)
	}
}

// InvalidateAll is [Cache.Invalidate] for all keys.
func (c *Cache[K, V]) InvalidateAll() {
	c.group.InvalidateAll()
	c.kept.clear()
}

// Len returns how many entries there are, expired ones included.
func (c *Cache[K, V]) Len() int { return c.kept.len() }

// Close is [Group.Close]. Get goes on to return what is fresh.
func (c *Cache[K, V]) Close(ctx context.Context) error { return c.group.Close(ctx) }

// wait waits for a load, in the place of the entry that the caller saw, and serves that if the load fails.
func (c *Cache[K, V]) wait(ctx context.Context, key K, seen *entry[V]) (V, error) {
	if seen != nil && seen.err == nil && seen.rests(time.Now()) {
		observe(ctx, &c.group.o, EventStale, key, 0, nil)
		return c.copy(seen.value), nil
	}
	loaded, err := c.group.Do(ctx, key, c.filling(key, seen))
	if err == nil {
		return c.copy(loaded.value), nil
	}
	// What is kept by now, and not what the caller saw: that may be forgotten.
	if e := c.kept.get(key); e != nil && ctx.Err() == nil && !refused(err) && e.serves(time.Now()) {
		observe(ctx, &c.group.o, EventStale, key, 0, err)
		return c.copy(e.value), nil
	}
	if loaded == nil {
		var none V
		return none, err
	}
	return loaded.value, err
}

// refused reports whether err is about the call, and not the load.
func refused(err error) bool { return errors.Is(err, ErrClosed) || errors.Is(err, ErrNested) }

// filling is the load of a caller who saw an entry. If there is another by now, some call was quicker, and that stays as it is: an
// age counts from the load, however late the caller comes.
func (c *Cache[K, V]) filling(key K, seen *entry[V]) func(context.Context) (*entry[V], error) {
	return func(ctx context.Context) (*entry[V], error) {
		if e := c.kept.get(key); e != nil && e != seen && time.Now().Before(e.hard) {
			return e, e.err
		}
		begun := time.Now()
		value, err := c.load(ctx, key)
		took := time.Since(begun)
		observe(ctx, &c.group.o, EventLoaded, key, took, err)
		return c.o.entry(value, err, begun, took), err
	}
}

// refresh begins a load that nobody waits for, unless one is under way.
func (c *Cache[K, V]) refresh(ctx context.Context, key K, seen *entry[V]) {
	f, leads := c.group.flights.Join(key, func() lead { return beginDetached(ctx) })
	switch {
	case leads:
		// Nobody waits who could give up. Once the value is over, callers do, and a load that hangs is theirs to leave.
		timer := time.AfterFunc(time.Until(seen.hard.Add(seen.delta+pause)), func() {
			if c.group.flights.Leave(key, f) {
				f.Lead.end(context.DeadlineExceeded)
				observe(ctx, &c.group.o, EventAbandoned, key, 0, context.DeadlineExceeded)
			}
		})
		go func() {
			defer timer.Stop()
			_, _ = c.group.run(key, f, c.filling(key, seen)) // the flight keeps it
		}()
	case f != nil && c.group.flights.Leave(key, f): // it is not for this caller
		f.Lead.end(context.Canceled)
	}
}

// settle stores what a flight came to, unless it was forgotten. To forget removes the entry after it has forgotten the flight,
// so whichever of the two comes first, nothing out of date stays.
func (c *Cache[K, V]) settle(key K, f *flightOf[*entry[V]], r result[*entry[V]]) {
	if e := r.value; e == nil || r.err != nil && !c.o.remembers(r.err) {
		if f.Current() { // else the load was left or forgotten, which says nothing of the source
			c.kept.rest(key, time.Now().Add(pause))
		}
		return
	}
	if !c.kept.put(key, r.value, f.Current) {
		observe(&f.Lead, &c.group.o, EventDropped, key, 0, nil)
	}
}

func (c *Cache[K, V]) copy(value V) V {
	if c.o.Clone == nil {
		return value
	}
	return c.o.Clone(value)
}
