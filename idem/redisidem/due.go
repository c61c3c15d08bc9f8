package redisidem

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/internal/redisscript"
)

//go:embed lua/due.lua
var dueSource string

var dueScript = script(dueSource)

// races is how often others may be faster before it is left to them.
const races = 100

// A candidate is a key that was due.
type candidate struct {
	id     idem.ID
	member string  // of the index
	since  float64 // in µs
}

// TakeDue implements [idem.Store]: one round trip finds what has been due for longest, and the next takes it, each by a script of its
// own that looks whether it still is. Others may be faster, and then it goes on with those that come next.
func (s *Store) TakeDue(ctx context.Context, d idem.Due) ([]idem.Record, error) {
	if s.err != nil || d.Limit <= 0 {
		return nil, s.err
	}
	for range races {
		list, err := s.due(ctx, d)
		if err != nil || len(list) == 0 {
			return nil, err
		}
		for chunk := range slices.Chunk(list, d.Limit) {
			if taken, err := s.takeAll(ctx, d, chunk); err != nil || len(taken) > 0 {
				return taken, err
			}
		}
	}
	return nil, nil
}

// due returns what is due, of each shard as much as is asked for. A node that does not answer costs its own, as long as others have
// some.
func (s *Store) due(ctx context.Context, d idem.Due) (list []candidate, err error) {
	args := []any{d.Limit, letters(d.States...)}
	for _, name := range d.Names {
		args = append(args, name)
	}
	calls := make([]redisscript.Call, shards)
	for shard := range calls {
		calls[shard] = redisscript.Call{Keys: s.index(shard), Args: args}
	}
	calls, err = s.scripts.RunAll(ctx, dueScript, calls)
	for _, c := range calls {
		found, failed := candidates(c)
		list, err = append(list, found...), cmp.Or(err, failed)
	}
	if len(list) == 0 && err != nil {
		return nil, fmt.Errorf("redisidem: look what is due: %w", err)
	}
	slices.SortFunc(list, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.since, b.since), slices.Compare(a.id[:], b.id[:]))
	})
	return list, nil
}

// candidates reads the reply of due.lua.
func candidates(c redisscript.Call) (list []candidate, err error) {
	values, _ := c.Reply.([]any)
	for pair := range slices.Chunk(values, 2) {
		member, _ := pair[0].(string)
		since, _ := pair[len(pair)-1].(string)
		at, err := strconv.ParseFloat(since, 64)
		id, ok := idOf(member, 19)
		if err != nil || !ok {
			return nil, fmt.Errorf("%w: %v", errReply, c.Reply)
		}
		list = append(list, candidate{id, member, at})
	}
	return list, c.Err
}

// idOf reads the ID that is in text, in hex.
func idOf(text string, at int) (id idem.ID, ok bool) {
	if len(text) < at+2*len(id) {
		return id, false
	}
	_, err := hex.Decode(id[:], []byte(text[at:at+2*len(id)]))
	return id, err == nil
}

// takeAll takes what is still due of list.
func (s *Store) takeAll(ctx context.Context, d idem.Due, list []candidate) (taken []idem.Record, err error) {
	calls := make([]redisscript.Call, len(list))
	for i, c := range list {
		calls[i] = redisscript.Call{Keys: s.keys(c.id), Args: []any{
			c.id.String(), rand.Int64(), d.Lease.Microseconds(), s.seen.Load(), "", letters(d.States...), "", c.member,
		}}
	}
	calls, err = s.scripts.RunAll(ctx, takeScript, calls)
	for i, c := range calls {
		if c.Err != nil { // it may be taken: then its lease runs out
			err = cmp.Or(err, c.Err)
			continue
		}
		r, ok, failed := s.taken(list[i].id, c.Reply)
		if err = cmp.Or(err, failed); ok {
			taken = append(taken, r)
		}
	}
	if len(taken) == 0 && err != nil {
		return nil, fmt.Errorf("redisidem: take what is due: %w", err)
	}
	return taken, nil
}
