package payroll

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/examples/internal/story"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/lease/redislease"
	"github.com/holdfast-go/holdfast/tx"
)

func init() { story.RegisterWorker("payroll", process[*sql.Tx], process[pgx.Tx]) }

// process pays out a month in a process of its own, in the way that it is told: the way, the month, and where Redis is.
func process[T any](ctx context.Context, db *tx.DB[T], args []string) string {
	way, month, address, prefix := args[0], args[1], args[2], args[3]
	var client *redis.Client
	if address != "" {
		o, err := redis.ParseURL(address)
		if err != nil {
			return err.Error()
		}
		client = redis.NewClient(o)
		defer func() { _ = client.Close() }()
	}
	o := &lease.Options{TTL: ttl, PollEvery: pause}
	switch way {
	case wayRow:
		return said(Naive(ctx, db, newRow(db), month))
	case wayKey:
		return said(Naive(ctx, db, key{client, prefix + "payout", rand.Text()}, month))
	case wayRedis:
		store, high := redislease.New(client, &redislease.Options{Prefix: prefix}), lease.NewHighWater(db, lease.Names{})
		return said(Fenced(ctx, db, lease.New(store, o), high.Guard, month))
	default:
		return said(Fenced(ctx, db, lease.New(lease.NewSQL(db, lease.Names{}), o), Exact(db), month))
	}
}

// refused begins what a process says that was fenced off.
const refused = "was refused"

// said tells what it came to.
func said(err error) string {
	var fenced *lease.FencedError
	switch {
	case errors.As(err, &fenced):
		return fmt.Sprintf("%s: %v", refused, fenced)
	case errors.Is(err, lease.ErrLost):
		return "is through; its lease ran out meanwhile"
	case err != nil:
		return fmt.Sprintf("failed: %v", err)
	}
	return "is through"
}
