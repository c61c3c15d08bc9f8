// Package rediscluster is a cluster of two Redis nodes for tests, between which slots move.
package rediscluster

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/testdb"
)

// A Cluster has half of the slots on each node. A node that is down costs its own slots.
type Cluster struct {
	Servers [2]*testdb.Server
	Nodes   [2]*redis.Client

	ids [2]string
}

// Start starts a cluster that ends with the test.
func Start(t testing.TB) *Cluster {
	t.Helper()
	ctx, c := t.Context(), &Cluster{}
	for i := range c.Nodes {
		c.Servers[i] = testdb.RedisNode(t)
		o, err := redis.ParseURL(c.Servers[i].URL())
		must(t, err)
		node := redis.NewClient(o)
		t.Cleanup(func() { _ = node.Close() })
		c.Nodes[i] = node
		c.ids[i], err = node.Do(ctx, "cluster", "myid").Text()
		must(t, err)
		must(t, node.ClusterAddSlotsRange(ctx, 8192*i, 8192*i+8191).Err())
		must(t, node.ConfigSet(ctx, "cluster-require-full-coverage", "no").Err())
	}
	must(t, c.Nodes[0].ClusterMeet(ctx, c.host(1), c.port(1)).Err())
	for _, node := range c.Nodes {
		for up := false; !up; {
			info, err := node.ClusterInfo(ctx).Result()
			up = err == nil && strings.HasPrefix(info, "cluster_state:ok") && strings.Contains(info, "cluster_slots_assigned:16384")
		}
	}
	return c
}

func (c *Cluster) host(i int) string {
	host, _, _ := net.SplitHostPort(c.Nodes[i].Options().Addr)
	return host
}

func (c *Cluster) port(i int) string {
	_, port, _ := net.SplitHostPort(c.Nodes[i].Options().Addr)
	return port
}

// Client returns a client that is told of the first node. change may be nil.
func (c *Cluster) Client(t testing.TB, change func(*redis.ClusterOptions)) *redis.ClusterClient {
	t.Helper()
	o := &redis.ClusterOptions{Addrs: []string{c.Nodes[0].Options().Addr}, DialTimeout: time.Second}
	if change != nil {
		change(o)
	}
	client := redis.NewClusterClient(o)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// A Slot is one that moves to the other node.
type Slot struct {
	cluster  *Cluster
	number   int
	from, to int
}

// Open opens the slot of key for its keys to move, one by one.
func (c *Cluster) Open(t testing.TB, key string) *Slot {
	t.Helper()
	ctx, s := t.Context(), &Slot{cluster: c}
	number, err := c.Nodes[0].ClusterKeySlot(ctx, key).Result()
	must(t, err)
	s.number = int(number)
	s.from = s.number / 8192
	s.to = 1 - s.from
	must(t, c.Nodes[s.to].Do(ctx, "cluster", "setslot", s.number, "importing", c.ids[s.from]).Err())
	must(t, c.Nodes[s.from].Do(ctx, "cluster", "setslot", s.number, "migrating", c.ids[s.to]).Err())
	return s
}

// Keys returns the keys of the slot that have not moved.
func (s *Slot) Keys(t testing.TB) []string {
	t.Helper()
	keys, err := s.cluster.Nodes[s.from].ClusterGetKeysInSlot(t.Context(), s.number, 1000).Result()
	must(t, err)
	return keys
}

// Move moves keys.
func (s *Slot) Move(t testing.TB, keys ...string) {
	t.Helper()
	for _, key := range keys {
		must(t, s.cluster.Nodes[s.from].Migrate(t.Context(), s.cluster.host(s.to), s.cluster.port(s.to), key, 0, 5*time.Second).Err())
	}
}

// Close moves what is left, and gives the slot to the other node. Clients are not told until they ask the old one.
func (s *Slot) Close(t testing.TB) {
	t.Helper()
	s.Move(t, s.Keys(t)...)
	for _, node := range []int{s.to, s.from} {
		must(t, s.cluster.Nodes[node].Do(t.Context(), "cluster", "setslot", s.number, "node", s.cluster.ids[s.to]).Err())
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
