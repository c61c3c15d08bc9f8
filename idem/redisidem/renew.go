package redisidem

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/internal/redisscript"
)

//go:embed lua/renew.lua
var renewSource string

var renewScript = script(renewSource)

// Renew implements [idem.Store]: a script for each shard, all in one round trip to each node. Keys of a node that does not answer are
// to be renewed later, as long as another does.
func (s *Store) Renew(ctx context.Context, terms []idem.Term, lease time.Duration) ([]idem.Renewal, error) {
	if s.err != nil || len(terms) == 0 {
		return nil, s.err
	}
	of := map[int][]int{} // indices of terms, by shard
	for i, t := range terms {
		of[shardOf(t.ID)] = append(of[shardOf(t.ID)], i)
	}
	var calls []redisscript.Call
	var parts [][]int // of each call
	for shard, part := range of {
		c := redisscript.Call{Keys: s.index(shard), Args: []any{lease.Microseconds()}}
		for _, i := range part {
			t := terms[i]
			c.Keys = append(c.Keys, s.KeyOf(t.ID))
			c.Args = append(c.Args, t.ID.String(), t.Nonce, t.Epoch)
		}
		calls, parts = append(calls, c), append(parts, part)
	}
	calls, err := s.scripts.RunAll(ctx, renewScript, calls)
	if err != nil {
		return nil, fmt.Errorf("redisidem: renew: %w", err)
	}
	renewals, failed := make([]idem.Renewal, len(terms)), 0
	for n, c := range calls {
		became, isList := c.Reply.([]any)
		if c.Err == nil && (!isList || len(became) != len(parts[n])) {
			c.Err = fmt.Errorf("%w: %v", errReply, c.Reply)
		}
		if c.Err != nil {
			err = c.Err
			failed++
		}
		for m, i := range parts[n] {
			switch {
			case c.Err != nil:
				renewals[i] = idem.RenewalLater
			case became[m] == int64(1):
				renewals[i] = idem.RenewalDone
			}
		}
	}
	if failed == len(calls) {
		return nil, fmt.Errorf("redisidem: renew: %w", err)
	}
	return renewals, nil
}
