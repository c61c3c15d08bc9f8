package lease_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
)

// One instance pays out at a time, and one that lost the lease without noticing commits nothing.
func ExampleDo() {
	var pool *pgxpool.Pool // open, and migrated with lease.Migrate
	db := pgxtx.New(pool)
	leases := lease.New(lease.NewSQL(db, lease.Names{}), &lease.Options{TTL: 10 * time.Second})

	payOut := func(ctx context.Context, batch int64) error {
		return leases.Run(ctx, "payout", func(ctx context.Context, h *lease.Held) error {
			return lease.Do(ctx, db, h, func(ctx context.Context, t pgx.Tx) error {
				_, err := t.Exec(ctx, "update payout set done = true where batch = $1", batch)
				return err
			})
		})
	}
	_ = payOut
}

// Somebody else is at it: say who, and come back later.
func ExampleLeases_TryAcquire() {
	var pool *pgxpool.Pool
	leases := lease.NewAdvisory(lease.NewSQL(pgxtx.New(pool), lease.Names{}), &lease.Options{Holder: "host-1"})

	warmCache := func(ctx context.Context) error {
		h, err := leases.TryAcquire(ctx, "warm-cache")
		var held *lease.HeldError
		if errors.As(err, &held) {
			return fmt.Errorf("%s does it already", held.Holder)
		}
		if err != nil {
			return err
		}
		defer func() { _, _ = h.Release(ctx) }() // also when ctx has ended
		return nil
	}
	_ = warmCache
}

// A leader that looks, right before each effect outside the database, whether it still leads. Give the token to the other side,
// and let it refuse smaller ones.
func ExampleLeases_Elect() {
	var pool *pgxpool.Pool
	leases := lease.New(lease.NewSQL(pgxtx.New(pool), lease.Names{}), nil)

	lead := func(ctx context.Context, h *lease.Held) error {
		for ctx.Err() == nil {
			if err := h.Check(); err != nil {
				return err
			}
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://example.com/tick", nil)
			if err != nil {
				return err
			}
			r.Header.Set("Fencing-Token", fmt.Sprint(h.Fence().Token))
			res, err := http.DefaultClient.Do(r)
			if err != nil {
				return err
			}
			_ = res.Body.Close()
		}
		return nil
	}
	run := func(ctx context.Context) error { return leases.Elect(ctx, "ticker", lead, nil) }
	_ = run
}

// An operator's command: who holds what, and an end to a holder that hangs.
func ExampleLeases_Evict() {
	var pool *pgxpool.Pool
	leases := lease.NewAdvisory(lease.NewSQL(pgxtx.New(pool), lease.Names{}), nil)

	list := func(ctx context.Context) error {
		for page := (lease.Page{Prefix: "payout/"}); ; {
			holdings, err := leases.List(ctx, page)
			if err != nil || len(holdings) == 0 {
				return err
			}
			for _, h := range holdings {
				fmt.Printf("%s: %s since %v, token %d\n", h.Name, h.Holder, h.Since, h.Token)
			}
			page.After = holdings[len(holdings)-1].Name
		}
	}
	evict := func(ctx context.Context, name string) error {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		_, err := leases.Evict(ctx, name)
		var blocked *lease.BlockedError
		if errors.As(err, &blocked) {
			for _, b := range blocked.Blockers {
				fmt.Printf("select pg_terminate_backend(%d); -- %s\n", b.PID, b)
			}
		}
		return err
	}
	_, _ = list, evict
}

// Those who do not lead send their requests to who does: its address is the metadata of the lease.
func ExampleLeases_Watch() {
	var pool *pgxpool.Pool
	leases := lease.NewAdvisory(lease.NewSQL(pgxtx.New(pool), lease.Names{}), nil)

	var leader atomic.Pointer[string]
	follow := func(ctx context.Context) error {
		return leases.Watch(ctx, "ticker", func(_ context.Context, h lease.Holding) { leader.Store(&h.Meta) }, nil)
	}
	_ = follow
}

// Tenants that wait for a lease get it in the order in which they came, however often the others ask.
func ExampleOptions_fair() {
	var pool *pgxpool.Pool
	leases := lease.NewAdvisory(lease.NewSQL(pgxtx.New(pool), lease.Names{}), &lease.Options{Fair: true})

	export := func(ctx context.Context) error {
		return leases.Run(ctx, "export", func(ctx context.Context, h *lease.Advisory) error {
			return h.Check() // before each effect
		})
	}
	_ = export
}

// At most four instances import at the same time, and each commits only while it has its slot.
func ExampleSemaphore() {
	var pool *pgxpool.Pool
	db := pgxtx.New(pool)
	slots := lease.NewSemaphore(lease.New(lease.NewSQL(db, lease.Names{}), nil), "import", 4)

	importFile := func(ctx context.Context, name string) error {
		return slots.Run(ctx, func(ctx context.Context, h *lease.Held) error {
			return lease.Do(ctx, db, h, func(ctx context.Context, t pgx.Tx) error {
				_, err := t.Exec(ctx, "update file set imported = true where name = $1", name)
				return err
			})
		})
	}
	_ = importFile
}
