// Package redisnodes is for what is asked of each server of Redis or Valkey: what it is, and which keys it has.
package redisnodes

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Client is what go-redis' Client, ClusterClient and UniversalClient have.
type Client interface {
	Info(ctx context.Context, sections ...string) *redis.StringCmd
	Pipeline() redis.Pipeliner
	Scan(ctx context.Context, cursor uint64, match string, count int64) *redis.ScanCmd
}

// OnEach does something on each primary of a cluster, at once, or on the server.
func OnEach(ctx context.Context, client Client, do func(ctx context.Context, node Client) error) error {
	if cluster, ok := client.(*redis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return do(ctx, node) })
	}
	return do(ctx, client)
}

// scanned is about how many keys of a server one request of a scan looks at.
const scanned = 1000

// Scan hands all keys that match pattern to do, some at a time, and some maybe more than once. Nodes are scanned at once.
func Scan(ctx context.Context, client Client, pattern string, do func(ctx context.Context, node Client, keys []string) error) error {
	return OnEach(ctx, client, func(ctx context.Context, node Client) error {
		for cursor := uint64(0); ; {
			keys, next, err := node.Scan(ctx, cursor, pattern, scanned).Result()
			if err != nil {
				return err
			}
			if len(keys) > 0 {
				if err := do(ctx, node, keys); err != nil {
					return err
				}
			}
			if cursor = next; cursor == 0 {
				return nil
			}
		}
	})
}

// Literal is the pattern that matches text, and nothing else.
func Literal(text string) string { return literal.Replace(text) }

var literal = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)
