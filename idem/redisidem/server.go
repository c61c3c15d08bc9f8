package redisidem

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/internal/redisnodes"
)

// Check implements [idem.Store]: it reports, for the start of a service, whether the servers can keep keys, and the user may run the
// scripts. It returns a [*ServerError], [ErrInvalid], or errors of the client.
func (s *Store) Check(ctx context.Context) error {
	if s.err != nil {
		return s.err
	}
	servers, err := redisnodes.Servers(ctx, s.client)
	if err != nil {
		return fmt.Errorf("redisidem: check: %w", err)
	}
	for _, server := range servers {
		if reason := s.fault(server); reason != "" {
			err = errors.Join(err, &ServerError{Server: server.String(), Reason: reason})
		}
	}
	if err != nil {
		return err
	}
	return s.probe(ctx)
}

// fault returns why a server cannot keep keys as it is, or "".
func (s *Store) fault(server redisnodes.Server) string {
	need, tooOld := server.TooOld()
	switch {
	case tooOld:
		return "is too old: " + server.Name + " " + need + " is the oldest that will do"
	case !server.Primary:
		return "is a replica, and takes no writes: connect to the primary"
	case server.Eviction != "noeviction" && !s.o.AllowEviction:
		return "may evict keys when its memory is full, and their operations would run again: set maxmemory-policy to noeviction, it is " +
			server.Eviction
	}
	return ""
}

// probe uses a key that goes by itself.
func (s *Store) probe(ctx context.Context) error {
	probe := New(s.client, &Options{Prefix: s.o.Prefix, Retention: time.Second, Tombstone: -1})
	key := idem.Key{Scope: "check", Name: "check", Value: rand.Text()}
	c := idem.Claim{ID: key.ID(), Scope: key.Scope, Name: key.Name, Input: []byte{}, Nonce: 1, Lease: time.Minute}
	r, err := probe.Claim(ctx, c)
	if err != nil {
		return err
	}
	_, released := probe.Release(ctx, termOf(r))
	c.Nonce = 2
	r, claimed := probe.Claim(ctx, c)
	_, waits := probe.Announce(ctx, r.ID)
	_, renewed := probe.Renew(ctx, []idem.Term{termOf(r)}, time.Minute)
	_, parked := probe.Park(ctx, termOf(r), idem.Parking{State: idem.Pending, After: time.Minute})
	c.Nonce = 3
	r, _, taken := probe.Take(ctx, idem.Taking{Claim: c, Was: r, Early: true})
	_, due := probe.due(ctx, idem.Due{Names: []string{key.Name}, States: []idem.State{idem.Running}, Limit: 1})
	_, listed := probe.List(ctx, idem.Filter{Name: key.Name, States: []idem.State{idem.Running}})
	_, marked := probe.Mark(ctx, termOf(r), []byte{})
	_, completed := probe.Complete(ctx, termOf(r), idem.Answer{State: idem.Completed, Body: []byte{}}, time.Second)
	if err = errors.Join(released, claimed, waits, renewed, parked, taken, due, listed, marked, completed); err != nil {
		_, _ = probe.Release(ctx, idem.Term{ID: c.ID, Nonce: c.Nonce}) // as far as it may
	}
	return err
}

func termOf(r idem.Record) idem.Term { return idem.Term{ID: r.ID, Nonce: r.Nonce, Epoch: r.Epoch} }
