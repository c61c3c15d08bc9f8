package herd

import (
	"context"
	"errors"
	"strconv"

	"github.com/redis/go-redis/v9"
	xsync "golang.org/x/sync/singleflight"

	"github.com/holdfast-go/holdfast/singleflight/redisflight"
)

// A RemoteCache is one in Redis, which several processes share.
type RemoteCache interface {
	Get(ctx context.Context, id string) (int64, error)
	Invalidate(ctx context.Context, id string) error
}

// NaiveRemote gets, computes, and sets.
type NaiveRemote struct {
	client *redis.Client
	prefix string
	load   Loader
}

// Get lets everybody who finds nothing load.
func (c *NaiveRemote) Get(ctx context.Context, id string) (int64, error) {
	text, err := c.client.Get(ctx, c.prefix+id).Result()
	switch {
	case err == nil:
		return strconv.ParseInt(text, 10, 64)
	case !errors.Is(err, redis.Nil):
		return 0, err
	}
	version, err := c.load(ctx, id)
	if err != nil {
		return 0, err
	}
	return version, c.client.Set(ctx, c.prefix+id, version, ttl).Err() // it may have been invalidated meanwhile
}

// Invalidate does not reach those who load.
func (c *NaiveRemote) Invalidate(ctx context.Context, id string) error {
	return c.client.Del(ctx, c.prefix+id).Err()
}

// SharedRemote is the naive cache with x/sync around the load, which shares within a process.
type SharedRemote struct {
	NaiveRemote
	group xsync.Group
}

// NewSharedRemote returns one.
func NewSharedRemote(client *redis.Client, prefix string, load Loader) *SharedRemote {
	s := &SharedRemote{}
	s.NaiveRemote = NaiveRemote{client, prefix, func(ctx context.Context, id string) (int64, error) {
		version, err, _ := s.group.Do(id, func() (any, error) { return load(ctx, id) })
		if err != nil {
			return 0, err
		}
		return version.(int64), nil
	}}
	return s
}

// Invalidate keeps later callers of this process out of a running load, and does not keep that from being stored.
func (s *SharedRemote) Invalidate(ctx context.Context, id string) error {
	s.group.Forget(id)
	return s.NaiveRemote.Invalidate(ctx, id)
}

// NewFencedRemote returns ours. Without chance, so that loads can be counted: usually one leaves Jitter alone.
func NewFencedRemote(client *redis.Client, prefix string, load Loader) *redisflight.Cache[int64] {
	return redisflight.New(client, load, &redisflight.Options[int64]{Prefix: prefix, TTL: ttl, Jitter: -1})
}
