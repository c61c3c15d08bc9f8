package redislease

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

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

// oldest are the versions that have what the scripts need.
var oldest = map[string]string{"redis": "6.2", "valkey": "7.2"}

// String names the server.
func (s Server) String() string { return s.Name + " " + s.Version }

// Fault returns why the server cannot keep leases as it is, a [*ServerError], or nil.
func (s Server) Fault() error {
	reason := ""
	switch need, known := oldest[s.Name]; {
	case known && older(s.Version, need):
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

// older compares versions by their numbers.
func older(version, than string) bool {
	return slices.Compare(numbers(version), numbers(than)) < 0
}

func numbers(version string) (parts []int) {
	for part := range strings.SplitSeq(version, ".") {
		n, _ := strconv.Atoi(part)
		parts = append(parts, n)
	}
	return parts
}

// Servers asks each primary of a cluster, or the server, what it is.
func (s *Store) Servers(ctx context.Context) ([]Server, error) {
	if s.err != nil {
		return nil, s.err
	}
	var mu sync.Mutex // nodes are asked at once
	var servers []Server
	err := s.onEach(ctx, func(ctx context.Context, node Client) error {
		text, err := node.Info(ctx).Result()
		if err != nil {
			return fmt.Errorf("redislease: %w", err)
		}
		mu.Lock()
		defer mu.Unlock()
		servers = append(servers, readInfo(text))
		return nil
	})
	return servers, err
}

// onEach does something on each primary of a cluster, at once, or on the server.
func (s *Store) onEach(ctx context.Context, do func(ctx context.Context, node Client) error) error {
	if cluster, ok := s.client.(*redis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return do(ctx, node) })
	}
	return do(ctx, s.client)
}

// readInfo reads the reply to INFO.
func readInfo(text string) Server {
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	server := Server{
		Name: "redis", Version: fields["redis_version"], Primary: fields["role"] == "master",
		Eviction: fields["maxmemory_policy"], AppendOnly: fields["aof_enabled"] == "1",
	}
	if version, ok := fields["valkey_version"]; ok {
		server.Name, server.Version = "valkey", version
	}
	server.Replicas, _ = strconv.Atoi(fields["connected_slaves"])
	server.MaxMemory, _ = strconv.ParseInt(fields["maxmemory"], 10, 64)
	return server
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
