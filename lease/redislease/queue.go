package redislease

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/lease"
)

var (
	//go:embed lua/turn.lua
	turnSource string
	//go:embed lua/leave.lua
	leaveSource string

	turnScript  = redis.NewScript("local acquire = function(KEYS)\n" + acquireSource + "end\n" + turnSource)
	leaveScript = redis.NewScript(leaveSource)
)

// What comes after the key of a lease in those of its queue.
const (
	byTicket = ":turn"
	byEnd    = ":until"
)

func isQueue(key string) bool {
	return strings.HasSuffix(key, byTicket) || strings.HasSuffix(key, byEnd)
}

// queueOf returns the keys of a lease and of those who wait for it, which are in one slot of a cluster.
func (s *Store) queueOf(name string) []string {
	key := s.KeyOf(name)
	return []string{key, key + byTicket, key + byEnd}
}

// TryInTurn implements [lease.Queuer]: one script, one round trip. It writes when a place is taken, kept for half of its time, or
// given up.
func (s *Store) TryInTurn(ctx context.Context, c lease.Claim, w lease.Waiter) (lease.Grant, error) {
	return s.acquire(ctx, turnScript, s.queueOf(c.Name), c, []string{c.Name}, w.ID, w.TTL.Microseconds())
}

// Leave implements [lease.Queuer]: one script, one round trip.
func (s *Store) Leave(ctx context.Context, name, id string) error {
	_, err := s.ask(ctx, func() ([]any, error) { return nil, leaveScript.Run(ctx, s.client, s.queueOf(name), id).Err() })
	if err != nil {
		return fmt.Errorf("redislease: leave: %w", err)
	}
	return nil
}
