package redislease

import (
	"context"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redisscript"
	"github.com/holdfast-go/holdfast/lease"
)

// Renew implements [lease.Store]: one script for all on a *redis.Client. Other clients, for which leases are on several nodes,
// get a pipeline of one script for each, which is one round trip to each node; the failure of a node is that of its own leases.
func (s *Store) Renew(ctx context.Context, terms []lease.Term) ([]lease.Renewal, error) {
	if len(terms) == 0 {
		return nil, s.err
	}
	size := 1
	if _, ok := s.client.(*redis.Client); ok {
		size = len(terms)
	}
	if s.err != nil {
		return nil, s.err
	}
	var calls []redisscript.Call
	for part := range slices.Chunk(terms, size) {
		calls = append(calls, s.renewal(part))
	}
	calls, err := s.scripts.RunAll(ctx, renewScript, calls)
	if err != nil {
		return nil, fmt.Errorf("redislease: renew: %w", err)
	}
	renewals := make([]lease.Renewal, 0, len(terms))
	for _, c := range calls {
		became, _ := c.Reply.([]any)
		for i := range c.Keys {
			switch {
			case c.Err != nil:
				renewals = append(renewals, lease.Renewal{Err: fmt.Errorf("redislease: renew: %w", c.Err)})
			case len(became) != len(c.Keys):
				renewals = append(renewals, lease.Renewal{Err: fmt.Errorf("redislease: renew: %w: %v", errReply, c.Reply)})
			default:
				renewals = append(renewals, lease.Renewal{Held: became[i] == int64(1) || became[i] == int64(2), Resign: became[i] == int64(2)})
			}
		}
	}
	return renewals, nil
}

// renewal is the call of the script for terms.
func (s *Store) renewal(terms []lease.Term) (c redisscript.Call) {
	for _, t := range terms {
		c.Keys = append(c.Keys, s.KeyOf(t.Name))
		c.Args = append(c.Args, fmt.Sprintf("%016d", t.Token), mark(t.Nonce), t.TTL.Microseconds(), s.o.Retention.Milliseconds())
	}
	return c
}
