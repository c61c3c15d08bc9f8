package redisidem

import (
	"context"
	"crypto/rand"
	_ "embed"
	"time"

	"github.com/holdfast-go/holdfast/idem"
)

var (
	//go:embed lua/mark.lua
	markSource string
	//go:embed lua/park.lua
	parkSource string
	//go:embed lua/complete.lua
	completeSource string
	//go:embed lua/release.lua
	releaseSource string
	//go:embed lua/announce.lua
	announceSource string

	markScript     = script(markSource)
	parkScript     = script(parkSource)
	completeScript = script(completeSource)
	releaseScript  = script(releaseSource)
	announceScript = script(announceSource)
)

// Mark implements [idem.Store].
func (s *Store) Mark(ctx context.Context, t idem.Term, steps []byte) (held bool, err error) {
	return s.did(ctx, "mark", markScript, t.ID, t.Nonce, t.Epoch, steps)
}

// Park implements [idem.Store].
func (s *Store) Park(ctx context.Context, t idem.Term, p idem.Parking) (held bool, err error) {
	return s.did(ctx, "park", parkScript, t.ID,
		t.Nonce, t.Epoch, rand.Text(), int(p.State), p.After.Microseconds(), p.Note, p.Fresh, s.Channel())
}

// Complete implements [idem.Store].
func (s *Store) Complete(ctx context.Context, t idem.Term, a idem.Answer, ttl time.Duration) (held bool, err error) {
	args := []any{
		t.Nonce, t.Epoch, int(a.State), a.Codec, a.Status, ttl.Microseconds(), max(s.o.Tombstone, 0).Milliseconds(), s.Channel(),
	}
	if a.Body != nil {
		args = append(args, a.Body)
	}
	return s.did(ctx, "complete", completeScript, t.ID, args...)
}

// Release implements [idem.Store].
func (s *Store) Release(ctx context.Context, t idem.Term) (held bool, err error) {
	return s.did(ctx, "release", releaseScript, t.ID, t.Nonce, t.Epoch, rand.Text(), s.o.Retention.Milliseconds(), s.Channel())
}

// Announce implements [idem.Store].
func (s *Store) Announce(ctx context.Context, id idem.ID) (open bool, err error) {
	return s.did(ctx, "announce", announceScript, id)
}
