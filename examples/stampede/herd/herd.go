// Package herd is the stampede story: a key of a cache that expires and is invalidated while many want it.
package herd

import (
	"context"
	"sync"
	"time"

	xsync "golang.org/x/sync/singleflight"

	"github.com/holdfast-go/holdfast/singleflight"
)

// ttl is how long each cache keeps a value.
const ttl = 200 * time.Millisecond

// A Loader reads the version of a product that is committed.
type Loader func(ctx context.Context, id string) (int64, error)

// A Cache is what callers ask, and what the writer tells of a change after its commit.
type Cache interface {
	Get(ctx context.Context, id string) (int64, error)
	Invalidate(id string)
}

// Naive gets, computes, and sets.
type Naive struct {
	load Loader

	mu   sync.Mutex // guards kept
	kept map[string]kept
}

type kept struct {
	version int64
	end     time.Time
}

// NewNaive returns an empty cache.
func NewNaive(load Loader) *Naive { return &Naive{load: load, kept: map[string]kept{}} }

// Get lets everybody who finds nothing load.
func (c *Naive) Get(ctx context.Context, id string) (int64, error) {
	c.mu.Lock()
	k, ok := c.kept[id]
	c.mu.Unlock()
	if ok && time.Now().Before(k.end) {
		return k.version, nil
	}
	version, err := c.load(ctx, id)
	if err != nil {
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept[id] = kept{version, time.Now().Add(ttl)} // it may have been invalidated meanwhile
	return version, nil
}

// Invalidate does not reach those who load.
func (c *Naive) Invalidate(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.kept, id)
}

// Shared is the naive cache with x/sync around the load.
type Shared struct {
	*Naive
	group xsync.Group
}

// NewShared returns an empty cache.
func NewShared(load Loader) *Shared {
	s := &Shared{}
	s.Naive = NewNaive(func(ctx context.Context, id string) (int64, error) {
		version, err, _ := s.group.Do(id, func() (any, error) { return load(ctx, id) })
		if err != nil {
			return 0, err
		}
		return version.(int64), nil
	})
	return s
}

// Invalidate keeps later callers out of a running load, and does not keep that from being stored.
func (s *Shared) Invalidate(id string) {
	s.group.Forget(id)
	s.Naive.Invalidate(id)
}

// Fenced is ours.
type Fenced struct {
	*singleflight.Cache[string, int64]
}

// NewFenced returns an empty cache. Without chance, so that loads can be counted: usually one leaves Beta and Jitter alone.
func NewFenced(load Loader) Fenced {
	return Fenced{singleflight.NewCache(load, &singleflight.CacheOptions[int64]{TTL: ttl, Beta: -1, Jitter: -1})}
}

// Invalidate makes the next Get load, and keeps what is being loaded out of the cache.
func (f Fenced) Invalidate(id string) { f.Cache.Invalidate(id) }
