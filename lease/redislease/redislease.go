package redislease

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

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
	client   Client
	o        Options
	err      error         // what is wrong with the client or the options
	patience time.Duration // of the client, for a reply
	heeds    bool          // the client stops at deadlines by itself
	tasks    chan task     // taken by workers that have nothing to do
	seen     atomic.Int64  // the highest token that any lease of this store had
}

// New returns the store under the prefix of o. Nil options work. A client that is nil and options that cannot be used are reported
// by every method.
func New(client Client, o *Options) *Store {
	s := &Store{client: client, o: o.withDefaults(), tasks: make(chan task)}
	if s.err = s.o.check(); missing(client) {
		s.err = fmt.Errorf("%w: there is no client: use New with one", ErrInvalid)
		return s
	}
	s.patience, s.heeds = timeouts(client)
	return s
}

// Capabilities implements [lease.Store].
func (s *Store) Capabilities() lease.Capabilities {
	return lease.Capabilities{
		Fencing: true, TokenSurvivesDeletion: lease.IfClockRises, TokenSurvivesFailover: lease.IfClockRises, RenewsExpired: true,
	}
}

// Fence returns the fence of g. It has no guard for transactions: see [lease.HighWater].
func (s *Store) Fence(g lease.Grant) lease.Fence {
	return lease.Fence{Name: g.Name, Token: g.Token, Nonce: g.Nonce}
}

// KeyOf returns where a lease is. The braces choose the slot of a cluster, so a name, which may have braces, is not in them. What
// is there may be looked at: the token, the end and the end of the least time in µs since 1970, the state, the nonce, and what
// the holder said. The state is + while it is held, ! while its holder is asked to resign, and - after a release.
func (s *Store) KeyOf(name string) string {
	sum := sha256.Sum256([]byte(name))
	return s.o.Prefix + "{" + hex.EncodeToString(sum[:]) + "}"
}

// life is how long a key stays, in ms. It outlives whatever the lease lasts.
func (s *Store) life(lasts time.Duration) int64 { return (s.o.Retention + lasts).Milliseconds() }

// TryAcquire implements [lease.Store]: one script, one round trip. A try that is refused writes nothing.
func (s *Store) TryAcquire(ctx context.Context, c lease.Claim) (lease.Grant, error) {
	reply, err := s.ask(ctx, func() ([]any, error) {
		return acquireScript.Run(ctx, s.client, []string{s.KeyOf(c.Name)}, mark(c.Nonce), c.TTL.Microseconds(), c.AtLeast.Microseconds(),
			s.seen.Load(), s.life(max(c.TTL, c.AtLeast)), mark(c.Holder)+mark(c.Meta)+mark(c.Name)).Slice()
	})
	if err != nil {
		return lease.Grant{}, fmt.Errorf("redislease: acquire: %w", err)
	}
	g, ok := grant(c, reply)
	if !ok {
		return lease.Grant{}, fmt.Errorf("redislease: acquire: %w: %v", errReply, reply)
	}
	s.saw(g.Token)
	return g, nil
}

// grant reads the reply of the script.
func grant(c lease.Claim, reply []any) (g lease.Grant, ok bool) {
	g.Name = c.Name
	if len(reply) < 2 {
		return g, false
	}
	g.Token, ok = reply[1].(int64)
	switch {
	case len(reply) == 2 && reply[0] == int64(1):
		g.Held, g.Nonce = true, c.Nonce
		return g, ok && g.Token > 0
	case len(reply) == 4 && reply[0] == int64(0):
		text, isText := reply[2].(string)
		left, isLeft := reply[3].(int64)
		g.Remaining = time.Duration(left) * time.Microsecond
		g.Holder, g.Meta = said(text)
		return g, ok && isText && isLeft
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
	request := rand.Text()
	reply, err := s.ask(ctx, func() ([]any, error) {
		n, err := releaseScript.Run(ctx, s.client, []string{s.KeyOf(t.Name)}, mark(t.Nonce), request).Int()
		return []any{n}, err
	})
	if err != nil {
		return false, fmt.Errorf("redislease: release: %w", err)
	}
	return reply[0] == 1, nil
}
