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
	client Client
	o      Options
	heeds  bool
	err    error        // what is wrong with the client or the options
	seen   atomic.Int64 // the highest token that any lease of this store had
}

// New returns the store under the prefix of o. Nil options work. A client that is nil and options that cannot be used are reported
// by every method.
func New(client Client, o *Options) *Store {
	s := &Store{client: client, o: o.withDefaults()}
	if s.err = s.o.check(); missing(client) {
		s.err = fmt.Errorf("%w: there is no client: use New with one", ErrInvalid)
		return s
	}
	s.heeds = heeds(client)
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

// KeyOf returns where a lease is: a hash, whose name, token, holder, meta and until (in µs since 1970) may be read. The braces choose
// the slot of a cluster, so a name, which may have braces, is not in them.
func (s *Store) KeyOf(name string) string {
	sum := sha256.Sum256([]byte(name))
	return s.o.Prefix + "{" + hex.EncodeToString(sum[:]) + "}"
}

// life is how long a key stays, in ms. It outlives whatever the lease lasts.
func (s *Store) life(lasts time.Duration) int64 { return (s.o.Retention + lasts).Milliseconds() }

// TryAcquire implements [lease.Store]: one script, one round trip. A try that is refused writes nothing.
func (s *Store) TryAcquire(ctx context.Context, c lease.Claim) (lease.Grant, error) {
	reply, err := s.ask(ctx, func() ([]any, error) {
		return acquireScript.Run(ctx, s.client, []string{s.KeyOf(c.Name)}, c.Nonce, c.TTL.Microseconds(), c.AtLeast.Microseconds(),
			s.seen.Load(), s.life(max(c.TTL, c.AtLeast)), c.Name, c.Holder, c.Meta).Slice()
	})
	if err != nil {
		return lease.Grant{}, fmt.Errorf("redislease: acquire: %w", err)
	}
	g, ok := grant(c, reply)
	if !ok {
		return lease.Grant{}, fmt.Errorf("redislease: acquire: %w: %q", errReply, reply)
	}
	s.saw(g.Token)
	return g, nil
}

// grant reads the reply of the script.
func grant(c lease.Claim, reply []any) (g lease.Grant, ok bool) {
	g.Name = c.Name
	switch {
	case len(reply) == 2 && reply[0] == int64(1):
		g.Held, g.Nonce = true, c.Nonce
		g.Token, ok = reply[1].(int64)
		return g, ok && g.Token > 0
	case len(reply) == 5 && reply[0] == int64(0):
		token, isToken := reply[1].(int64)
		left, isLeft := reply[4].(int64)
		g.Holder, _ = reply[2].(string)
		g.Meta, _ = reply[3].(string)
		g.Token, g.Remaining = token, time.Duration(left)*time.Microsecond
		return g, isToken && isLeft
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
		n, err := releaseScript.Run(ctx, s.client, []string{s.KeyOf(t.Name)}, t.Nonce, request).Int()
		return []any{n}, err
	})
	if err != nil {
		return false, fmt.Errorf("redislease: release: %w", err)
	}
	return reply[0] == 1, nil
}

// ask waits for a request as long as ctx lasts, which go-redis by default does not heed while it reads. The request ends by itself
// then, after the client's timeouts.
func (s *Store) ask(ctx context.Context, request func() ([]any, error)) ([]any, error) {
	if s.err != nil {
		return nil, s.err
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if s.heeds || ctx.Done() == nil {
		return request()
	}
	type reply struct {
		values []any
		err    error
	}
	replies := make(chan reply, 1)
	go func() {
		values, err := request()
		replies <- reply{values, err}
	}()
	select {
	case r := <-replies:
		return r.values, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
