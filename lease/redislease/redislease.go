package redislease

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redisscript"
	"github.com/holdfast-go/holdfast/lease"
)

var (
	//go:embed lua/acquire.lua
	acquireSource string
	//go:embed lua/renew.lua
	renewSource string
	//go:embed lua/release.lua
	releaseSource string

	acquireScript = redis.NewScript(acquireSource)
	renewScript   = redis.NewScript(renewSource)
	releaseScript = redis.NewScript(releaseSource)
)

// A Store keeps leases in Redis, for [lease.New] and [lease.NewAdvisory]. It is safe for concurrent use.
type Store struct {
	client  Client
	o       Options
	err     error // what is wrong with the client or the options
	scripts *redisscript.Runner
	seen    atomic.Int64 // the highest token that any lease of this store had
}

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

// ask makes a request, and waits for the reply until the deadline of ctx.
func (s *Store) ask(ctx context.Context, request func() ([]any, error)) ([]any, error) {
	if s.err != nil {
		return nil, s.err
	}
	return redisscript.Ask(ctx, s.scripts, request)
}

// Capabilities implements [lease.Store].
func (s *Store) Capabilities() lease.Capabilities {
	return lease.Capabilities{
		Fencing: true, TokenSurvivesDeletion: lease.IfClockRises, TokenSurvivesFailover: lease.IfClockRises, RenewsExpired: true,
		Lists: true, Resigns: true, Evicts: true, Queues: true, Chooses: true,
	}
}

// Fence returns the fence of g. It has no guard for transactions: see [lease.HighWater].
func (s *Store) Fence(g lease.Grant) lease.Fence {
	return lease.Fence{Name: g.Name, Token: g.Token, Nonce: g.Nonce}
}

// KeyOf returns where a lease is. The braces choose the slot of a cluster, so a name, which may have braces, is not in them; the slots
// of a semaphore are in one. What is there may be looked at: the token, the end and the end of the least time in µs since 1970, the
// state, the nonce, and what the holder said. The state is + while it is held, ! while its holder is asked to resign, and - after a
// release.
func (s *Store) KeyOf(name string) string {
	semaphore := lease.SemaphoreOf(name)
	number := ""
	if semaphore != "" {
		name, number = semaphore, name[len(semaphore):]
	}
	sum := sha256.Sum256([]byte(name))
	return s.o.Prefix + "{" + hex.EncodeToString(sum[:]) + "}" + number
}

// life is how long a key stays, in ms. It outlives whatever the lease lasts.
func (s *Store) life(lasts time.Duration) int64 { return (s.o.Retention + lasts).Milliseconds() }

// TryAcquire implements [lease.Store]: one script, one round trip. A try that is refused writes nothing.
func (s *Store) TryAcquire(ctx context.Context, c lease.Claim) (lease.Grant, error) {
	return s.TryAny(ctx, c, []string{c.Name})
}

// TryAny implements [lease.Chooser]: one script, one round trip. A try that is refused writes nothing.
func (s *Store) TryAny(ctx context.Context, c lease.Claim, names []string) (lease.Grant, error) {
	keys := make([]string, len(names))
	for i, name := range names {
		keys[i] = s.KeyOf(name)
	}
	return s.acquire(ctx, acquireScript, keys, c, names)
}

// acquire sends script, which is acquire.lua or begins with it, with what it takes and then more, and reads its reply.
func (s *Store) acquire(
	ctx context.Context, script *redis.Script, keys []string, c lease.Claim, names []string, more ...any,
) (lease.Grant, error) {
	reply, err := s.ask(ctx, func() ([]any, error) {
		args := append(make([]any, 0, 6+len(names)+len(more)), mark(c.Nonce), c.TTL.Microseconds(), c.AtLeast.Microseconds(),
			s.seen.Load(), s.life(max(c.TTL, c.AtLeast)), mark(c.Holder)+mark(c.Meta))
		for _, name := range names {
			args = append(args, mark(name))
		}
		return script.Run(ctx, s.client, keys, append(args, more...)...).Slice()
	})
	if err != nil {
		return lease.Grant{}, fmt.Errorf("redislease: acquire: %w", err)
	}
	g, ok := grant(c, names, reply)
	if !ok {
		return lease.Grant{}, fmt.Errorf("redislease: acquire: %w: %v", errReply, reply)
	}
	s.saw(g.Token)
	return g, nil
}

// grant reads the reply of the script.
func grant(c lease.Claim, names []string, reply []any) (g lease.Grant, ok bool) {
	var numbers [5]int64
	for i := range min(len(reply), len(numbers)) {
		numbers[i], ok = reply[i].(int64)
		if !ok && i != 2 {
			return g, false
		}
	}
	g.Token = numbers[1]
	switch at := numbers[2] - 1; {
	case len(reply) == 3 && numbers[0] == 1 && g.Token > 0 && at >= 0 && at < int64(len(names)):
		g.Held, g.Name, g.Nonce = true, names[at], c.Nonce
		return g, true
	case len(reply) >= 4 && numbers[0] == 0:
		text, isText := reply[2].(string)
		g.Holder, g.Meta, g.Name = said(text)
		g.Name = cmp.Or(g.Name, c.Name)
		g.Remaining, g.Ahead = time.Duration(numbers[3])*time.Microsecond, int(numbers[4])
		return g, isText
	}
	return g, false
}

// saw remembers the highest token. A server that has lost everything, and whose clock is behind, is told to begin above it.
func (s *Store) saw(token int64) {
	for {
		highest := s.seen.Load()
		if token <= highest || s.seen.CompareAndSwap(highest, token) {
			return
		}
	}
}

// Release implements [lease.Store]: one script, one round trip. A repetition by the client, after a reply was lost, gets the
// answer of the first.
func (s *Store) Release(ctx context.Context, t lease.Term) (held bool, err error) {
	request := mark(rand.Text()) + mark(t.Name)
	reply, err := s.ask(ctx, func() ([]any, error) {
		n, err := releaseScript.Run(ctx, s.client, []string{s.KeyOf(t.Name)}, mark(t.Nonce), request).Int()
		return []any{n}, err
	})
	if err != nil {
		return false, fmt.Errorf("redislease: release: %w", err)
	}
	return reply[0] == 1, nil
}
