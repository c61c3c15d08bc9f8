package redisflight

import (
	"context"
	"fmt"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/singleflight"
)

// Client is what go-redis' Client, ClusterClient and UniversalClient have.
type Client interface {
	redis.Scripter
	Del(ctx context.Context, keys ...string) *redis.IntCmd
}

// A Cache keeps in Redis what a load comes to, and loads each key once at a time across all processes. It is safe for
// concurrent use.
type Cache[V any] struct {
	client Client
	source func(ctx context.Context, key string) (V, error)
	o      Options[V]
	err    error // what is wrong with the options
	group  *singleflight.Group[string, V]
	tasks  sync.WaitGroup // requests that nobody may wait for, and renewals
}

// New returns a cache of what load comes to. Nil options work. A client that is nil and options that cannot be used are reported
// by every method. The load gets the context of the flight: see [singleflight.Group.Do].
func New[V any](client Client, load func(ctx context.Context, key string) (V, error), o *Options[V]) *Cache[V] {
	c := &Cache[V]{client: client, source: load, o: o.withDefaults()}
	if c.err = c.o.check(); client == nil {
		c.err = fmt.Errorf("%w: there is no client: use New with one", ErrInvalid)
	}
	c.group = singleflight.New[string, V](&singleflight.Options{Name: c.o.Name, Observer: c.o.Observer})
	return c
}

// Get returns the value of key from Redis, or else what a load comes to, here or in another process. The callers of one
// process share the value: they must not change what it points to.
//
// It returns the error of the load as it is; one that wraps [singleflight.ErrNotFound] where that is remembered; the cause of
// ctx; what [singleflight.Group.Do] returns; [ErrInvalid]. That Redis is away is no error: the load happens, once for the
// callers in this process, and is not stored.
func (c *Cache[V]) Get(ctx context.Context, key string) (V, error) {
	if c.err != nil {
		var none V
		return none, c.err
	}
	return c.group.Do(ctx, key, func(ctx context.Context) (V, error) { return c.fetch(ctx, key) })
}

// Invalidate forgets a key, in all processes: what is being loaded is not stored. Call it after the change is committed, not
// before. If it returns an error, a value that is out of date may stay for its TTL: call it again.
func (c *Cache[V]) Invalidate(ctx context.Context, key string) error {
	if c.err != nil {
		return c.err
	}
	k := c.keys(key)
	err := c.client.Del(ctx, k.value, k.lease).Err()
	if redis.HasErrorPrefix(err, "TRYAGAIN") { // their slot moves to another node, and has them at both
		if err = c.client.Del(ctx, k.lease).Err(); err == nil { // first: without it nothing is stored
			err = c.client.Del(ctx, k.value).Err()
		}
	}
	c.group.Invalidate(key) // last: until here a flight could find the old value
	if err != nil {
		return fmt.Errorf("redisflight: the value may still be there, invalidate it again: %w", err)
	}
	return nil
}

// Close is [singleflight.Group.Close]. Then it waits, as long as ctx lasts, until leases are given back.
func (c *Cache[V]) Close(ctx context.Context) error {
	if err := c.group.Close(ctx); err != nil {
		return err
	}
	idle := make(chan struct{})
	go func() {
		c.tasks.Wait()
		close(idle)
	}()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
