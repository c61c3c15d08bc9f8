package redisidem

import (
	"context"
	_ "embed"
	"fmt"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/internal/redisscript"
)

// A Store keeps keys in Redis, for [idem.NewLeasedOn]. It is safe for concurrent use.
type Store struct {
	client  Client
	o       Options
	err     error // what is wrong with the client or the options
	scripts *redisscript.Runner
	seen    atomic.Int64 // the highest epoch that any key of this store had
}

var _ idem.Store = (*Store)(nil)

// New returns the store under the prefix of o. Nil options work. A client that is nil and options that cannot be used are reported
// by every method.
func New(client Client, o *Options) *Store {
	s := &Store{client: client, o: o.withDefaults()}
	if s.err = s.o.check(); redisscript.Missing(client) {
		s.err = fmt.Errorf("%w: there is no client: use New with one", ErrInvalid)
		return s
	}
	s.scripts = redisscript.New(client)
	return s
}

// shards is into how many parts keys are divided, each with its own indices in one slot of a cluster. It is no option: processes that
// disagree about it would not see each other's keys.
const shards = 64

func shardOf(id idem.ID) int { return int(id[0]) % shards }

// index returns where the open keys of a shard are listed: those that a completer can do, and the others.
func (s *Store) index(shard int) []string {
	tag := s.tag(shard)
	return []string{tag + "due", tag + "open"}
}

// tag begins the keys of a shard. The braces choose its slot.
func (s *Store) tag(shard int) string { return fmt.Sprintf("%s{%02x}:", s.o.Prefix, shard) }

// KeyOf returns where a key is. What is there may be looked at, see lua/key.lua; it is deleted with the body of its answer, which is at
// the same name with ":body".
func (s *Store) KeyOf(id idem.ID) string { return s.tag(shardOf(id)) + id.String() }

// keys are those of a script for one key.
func (s *Store) keys(id idem.ID) []string {
	key := s.KeyOf(id)
	return append(s.index(shardOf(id)), key, key+":body")
}

//go:embed lua/key.lua
var keySource string

// script returns one that begins with key.lua.
func script(source string) *redis.Script { return redis.NewScript(keySource + source) }

// run runs a script for one key. Its second argument and those that follow are args.
func (s *Store) run(ctx context.Context, what string, script *redis.Script, id idem.ID, args ...any) (any, error) {
	if s.err != nil {
		return nil, s.err
	}
	reply, err := s.scripts.Run(ctx, script, s.keys(id), append([]any{id.String()}, args...)...)
	if err != nil {
		return nil, fmt.Errorf("redisidem: %s: %w", what, err)
	}
	return reply, nil
}

// did runs a script that replies with 1 or 0.
func (s *Store) did(ctx context.Context, what string, script *redis.Script, id idem.ID, args ...any) (bool, error) {
	reply, err := s.run(ctx, what, script, id, args...)
	if err != nil {
		return false, err
	}
	n, ok := reply.(int64)
	if !ok {
		return false, fmt.Errorf("redisidem: %s: %w: %v", what, errReply, reply)
	}
	return n == 1, nil
}

// saw remembers the highest epoch. A server that has lost everything, and whose clock is behind, is told to begin above it.
func (s *Store) saw(epoch int64) {
	for {
		highest := s.seen.Load()
		if epoch <= highest || s.seen.CompareAndSwap(highest, epoch) {
			return
		}
	}
}
