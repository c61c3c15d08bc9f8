package redislease

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/redisnodes"
	"github.com/holdfast-go/holdfast/lease"
)

// A Server is what a server says of itself.
type Server struct {
	// Name is "redis" or "valkey", Version its version.
	Name, Version string
	// Primary tells that it takes writes.
	Primary bool
	// Replicas is how many are connected. They get what was acquired a moment later: a failover can lose it.
	Replicas int
	// Eviction is the policy for a full memory, and MaxMemory what is full, in bytes; 0 is no bound.
	Eviction  string
	MaxMemory int64
	// AppendOnly tells that writes go to a file. Without, a restart forgets all leases, or those since its last snapshot.
	AppendOnly bool
}

// String names the server.
func (s Server) String() string { return redisnodes.Server(s).String() }

// Fault returns why the server cannot keep leases as it is, a [*ServerError], or nil.
func (s Server) Fault() error {
	reason := ""
	switch need, tooOld := redisnodes.Server(s).TooOld(); {
	case tooOld:
		reason = "is too old: " + s.Name + " " + need + " is the oldest that will do"
	case !s.Primary:
		reason = "is a replica, and takes no writes: connect to the primary"
	case s.MaxMemory > 0 && s.Eviction != "noeviction":
		reason = "may evict leases when its memory is full: set maxmemory-policy to noeviction, it is " + s.Eviction
	}
	if reason == "" {
		return nil
	}
	return &ServerError{Server: s, Reason: reason}
}

// Servers asks each primary of a cluster, or the server, what it is.
func (s *Store) Servers(ctx context.Context) ([]Server, error) {
	if s.err != nil {
		return nil, s.err
	}
	found, err := redisnodes.Servers(ctx, s.client)
	if err != nil {
		return nil, fmt.Errorf("redislease: %w", err)
	}
	servers := make([]Server, len(found))
	for i, server := range found {
		servers[i] = Server(server)
	}
	return servers, nil
}

// Check reports, for the start of a service, whether the servers can keep leases, and the user may run the scripts. It returns
// a [*ServerError], [ErrInvalid], or errors of the client.
func (s *Store) Check(ctx context.Context) error {
	servers, err := s.Servers(ctx)
	if err != nil {
		return err
	}
	for _, server := range servers {
		err = errors.Join(err, server.Fault())
	}
	if err != nil {
		return err
	}
	probe := New(s.client, &Options{Prefix: s.o.Prefix, Retention: time.Second})
	claim := lease.Claim{Name: "check " + rand.Text(), Nonce: rand.Text(), TTL: time.Second}
	g, err := probe.TryAcquire(ctx, claim)
	if err != nil {
		return err
	}
	term := lease.Term{Name: claim.Name, Token: g.Token, Nonce: claim.Nonce, TTL: time.Second}
	renewals, err := probe.Renew(ctx, []lease.Term{term})
	if err == nil {
		err = renewals[0].Err
	}
	_, released := probe.Release(ctx, term)
	return errors.Join(err, released)
}
