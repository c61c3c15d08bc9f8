package redisidem

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/holdfast-go/holdfast/idem"
)

var (
	//go:embed lua/claim.lua
	claimSource string
	//go:embed lua/take.lua
	takeSource string

	claimScript = script(claimSource)
	takeScript  = script(takeSource)
)

// Claim implements [idem.Store].
func (s *Store) Claim(ctx context.Context, c idem.Claim) (idem.Record, error) {
	args := append([]any{c.Nonce, c.Lease.Microseconds(), s.seen.Load()}, attributes(c)...)
	reply, err := s.run(ctx, "claim", claimScript, c.ID, args...)
	if err != nil {
		return idem.Record{}, err
	}
	r, err := s.told("claim", c.ID, reply)
	return r, err
}

// attributes are what is stored of a claim, names and values by turns.
func attributes(c idem.Claim) []any {
	list := []any{"scope", c.Scope, "name", c.Name, "fp", c.Fingerprint}
	if c.Input != nil {
		list = append(list, "input", c.Input)
	}
	return list
}

// Take implements [idem.Store].
func (s *Store) Take(ctx context.Context, t idem.Taking) (r idem.Record, ok bool, err error) {
	over, early := letters(idem.Running, idem.Unknown, idem.Pending), ""
	if t.Early {
		early = letters(idem.Unknown, idem.Pending)
	}
	if t.Reuse {
		over += letters(idem.Completed, idem.Failed)
	}
	c := t.Claim
	args := append([]any{c.Nonce, c.Lease.Microseconds(), s.seen.Load(), t.Was.Nonce, over, early, ""}, attributes(c)...)
	reply, err := s.run(ctx, "take", takeScript, c.ID, args...)
	if err != nil {
		return idem.Record{}, false, err
	}
	return s.taken(c.ID, reply)
}

// taken reads the reply of take.lua.
func (s *Store) taken(id idem.ID, reply any) (r idem.Record, ok bool, err error) {
	if list, isList := reply.([]any); isList && len(list) == 0 {
		return idem.Record{}, false, nil
	}
	r, err = s.told("take", id, reply)
	return r, err == nil, err
}

// letters name states for the scripts, a digit each.
func letters(states ...idem.State) (text string) {
	for _, state := range states {
		text += fmt.Sprint(int(state))
	}
	return text
}
