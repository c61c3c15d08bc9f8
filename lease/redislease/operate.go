package redislease

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/lease"
)

var (
	//go:embed lua/look.lua
	lookSource string
	//go:embed lua/resign.lua
	resignSource string
	//go:embed lua/evict.lua
	evictSource string

	lookScript   = redis.NewScript(lookSource)
	resignScript = redis.NewScript(resignSource)
	evictScript  = redis.NewScript(evictSource)
)

// Look implements [lease.Lister]: one script, one round trip.
func (s *Store) Look(ctx context.Context, name string) (lease.Holding, error) {
	return s.one(ctx, "look", lookScript, name)
}

// RequestResign implements [lease.Resigner]: one script, one round trip.
func (s *Store) RequestResign(ctx context.Context, name string) (lease.Holding, error) {
	return s.one(ctx, "request to resign", resignScript, name)
}

// Evict implements [lease.Evicter]: one script, one round trip. There is no guard, and so nothing to wait for: what the holder does
// outside this Redis is refused by [lease.HighWater] once the next holder has written there.
func (s *Store) Evict(ctx context.Context, name string) (lease.Holding, error) {
	return s.one(ctx, "evict", evictScript, name, mark(rand.Text())+mark(name))
}

// one returns the lease that a script tells, or ErrFree.
func (s *Store) one(ctx context.Context, what string, script *redis.Script, name string, args ...any) (lease.Holding, error) {
	reply, err := s.ask(ctx, func() ([]any, error) {
		text, err := script.Run(ctx, s.client, []string{s.KeyOf(name)}, args...).Text()
		return []any{text}, err
	})
	switch {
	case errors.Is(err, redis.Nil):
		return lease.Holding{}, lease.ErrFree
	case err != nil:
		return lease.Holding{}, fmt.Errorf("redislease: %s: %w", what, err)
	}
	h, ok := holding(reply[0].(string))
	if !ok {
		return h, fmt.Errorf("redislease: %s: %w: %v", what, errReply, reply)
	}
	h.Name = name // of one that was released by an older version there is none
	return h, nil
}
