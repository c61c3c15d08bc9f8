package redislease_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/lease/redislease"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
)

// After a failover to an empty replica two hold the lease. A database that asks for the token takes nothing from the first
// once the second has written, and until then it does: that is what the package promises, and no more.
func TestHighWaterAcrossAFailover(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	pool, err := pgxpool.New(context.Background(), testdb.Postgres(t))
	must(t, err)
	t.Cleanup(pool.Close)
	db := pgxtx.New(pool)
	must(t, lease.Migrate(ctx, db, lease.Names{}))
	high := lease.NewHighWater(db, lease.Names{})
	write := func(h *lease.Held) error {
		return db.Do(ctx, func(ctx context.Context, t pgx.Tx) error { return high.Guard(ctx, t, h.Fence()) })
	}

	servers := failing(t)
	o := &lease.Options{TTL: time.Minute} // the first is told at its next renewal, in 20 s
	first, err := lease.New(servers, o).Acquire(ctx, "payout")
	must(t, err)
	must(t, write(first))
	must(t, servers.failover())
	second, err := lease.New(redislease.New(servers.client, nil), o).Acquire(ctx, "payout")
	must(t, err)
	must(t, first.Check())
	must(t, second.Check())
	must(t, write(first))
	must(t, write(second))
	var fenced *lease.FencedError
	if err := write(first); !errors.As(err, &fenced) || fenced.Token != second.Fence().Token {
		t.Errorf("the first holder: %v", err)
	}
	must(t, write(second))
	err = lease.Do(ctx, db, second, func(context.Context, pgx.Tx) error { return nil })
	if !errors.Is(err, lease.ErrNoGuard) {
		t.Errorf("the exact guard: %v", err)
	}
}
