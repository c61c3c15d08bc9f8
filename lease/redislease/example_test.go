package redislease_test

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/lease/redislease"
	"github.com/holdfast-go/holdfast/tx"
)

// One instance warms the cache. That two do now and then, after a failover, costs time and nothing else.
func Example() {
	var client *redis.Client // open
	leases := lease.NewAdvisory(redislease.New(client, nil), &lease.Options{TTL: 10 * time.Second})

	warm := func(ctx context.Context) error {
		return leases.Run(ctx, "warm-cache", func(ctx context.Context, h *lease.Advisory) error {
			return h.Check() // before each effect
		})
	}
	_ = warm
}

// Leases in Redis, and a database that refuses a holder of the past once a later one has written.
func Example_highWater() {
	var client *redis.Client
	var db *tx.DB[pgx.Tx] // migrated with lease.Migrate
	leases, high := lease.New(redislease.New(client, nil), nil), lease.NewHighWater(db, lease.Names{})

	payOut := func(ctx context.Context, batch int64) error {
		return leases.Run(ctx, "payout", func(ctx context.Context, h *lease.Held) error {
			return db.Do(ctx, func(ctx context.Context, t pgx.Tx) error {
				if err := high.Guard(ctx, t, h.Fence()); err != nil { // first, before anything is written
					return err
				}
				_, err := t.Exec(ctx, "update payout set done = true where batch = $1", batch)
				return err
			})
		})
	}
	_ = payOut
}
