package payroll

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/examples/internal/story"
	"github.com/holdfast-go/holdfast/tx"
)

// The ways to pay.
const (
	wayRow   = "row"   // naive, a row with an end
	wayKey   = "key"   // naive, a key of Redis with an end
	wayExact = "exact" // ours, leases in the database
	wayRedis = "redis" // ours, leases in Redis
)

// patience is how long the second is watched while it waits.
const patience = 3 * ttl

// An act is one way, and where its first process is stopped.
type act struct {
	title       string
	way, stopAt string
	refused     bool // the first process has to be
	waits       bool // the second has to wait for the first
}

// Run runs the story: in each act two processes pay out one month.
func Run(ctx context.Context, c story.Config) (story.Result, error) {
	r := story.Result{Story: "fencing", Hazard: "a process stands still between looking at its lock and writing", Backend: story.Backend(c.DSN)}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	place, err := story.NewPlace(ctx, c.DSN)
	if err != nil {
		return r, err
	}
	defer place.Remove()
	if err := place.On(ctx, Migrate[*sql.Tx], Migrate[pgx.Tx]); err != nil {
		return r, err
	}
	prefix := "story_" + rand.Text() + ":"
	naive := act{title: "naive, a row with an end", way: wayRow, stopAt: "checked"}
	if c.Redis != "" {
		naive = act{title: "naive, SET NX PX in Redis", way: wayKey, stopAt: "checked"}
		defer func() { _ = forget(context.WithoutCancel(ctx), c.Redis, prefix) }()
	}
	acts := []act{
		naive,
		{title: "ours, stopped before the guard", way: wayExact, stopAt: "checked", refused: true},
		{title: "ours, stopped behind the guard", way: wayExact, stopAt: "guarded", waits: true},
	}
	if c.Redis != "" {
		acts = append(acts, act{title: "ours, leases in Redis", way: wayRedis, stopAt: "checked", refused: true})
	}
	for _, a := range acts {
		c.Logf("%s", a.title)
		paid, wrong, err := a.play(ctx, c, place, prefix)
		if err != nil {
			return r, fmt.Errorf("%s: %w", a.title, err)
		}
		c.Logf("  the month was paid %d times", paid)
		r.Operations += 2
		if a == naive {
			r.NaiveDamage += paid - 1
			continue
		}
		r.Damage += max(paid-1, 1-paid) + wrong // too often, or not at all
	}
	r.Judge()
	return r, nil
}

// play lets the first process come to its point, stops it until the second has had its turn, and wakes it up. It counts the
// payments, and what the processes did otherwise than the act says.
func (a act) play(ctx context.Context, c story.Config, place story.Place, prefix string) (paid, wrong int, err error) {
	month := a.title
	start := func(stopAt string) (*story.Worker, error) {
		return place.Start(ctx, "payroll", stopAt, a.way, month, c.Redis, prefix)
	}
	first, err := start(a.stopAt)
	if err != nil {
		return 0, 0, err
	}
	defer first.Kill()
	if err := first.Stop(); err != nil {
		return 0, 0, err
	}
	c.Logf("  first:  stopped, %s", a.stopAt)
	second, err := start("")
	if err != nil {
		return 0, 0, err
	}
	defer second.Kill()
	// The second is through, or has waited long enough to show that it does not get the lease.
	if a.waits {
		if second.EndsWithin(patience) {
			wrong++
		}
		c.Logf("  second: waits, for %v by now; a lease lasts for %v", patience, ttl)
	} else if err := hearSecond(c, second); err != nil {
		return 0, 0, err
	}
	if err := first.Continue(); err != nil {
		return 0, 0, err
	}
	text, err := first.Wait()
	if err != nil {
		return 0, 0, err
	}
	c.Logf("  first:  goes on, and %s", text)
	if a.refused && !strings.HasPrefix(text, refused) {
		wrong++
	}
	if a.waits {
		if err := hearSecond(c, second); err != nil {
			return 0, 0, err
		}
	}
	paid, err = count(ctx, place, month)
	return paid, wrong, err
}

// hearSecond waits for the end of the second process.
func hearSecond(c story.Config, w *story.Worker) error {
	text, err := w.Wait()
	c.Logf("  second: %s", text)
	return err
}

// count looks into the database.
func count(ctx context.Context, place story.Place, month string) (n int, err error) {
	err = place.On(ctx,
		func(ctx context.Context, db *tx.DB[*sql.Tx]) error { n, err = payments(ctx, db, month); return err },
		func(ctx context.Context, db *tx.DB[pgx.Tx]) error { n, err = payments(ctx, db, month); return err })
	return n, err
}

// forget deletes what the story left in Redis.
func forget(ctx context.Context, address, prefix string) error {
	o, err := redis.ParseURL(address)
	if err != nil {
		return err
	}
	client := redis.NewClient(o)
	defer func() { _ = client.Close() }()
	keys := client.Scan(ctx, 0, prefix+"*", 1000).Iterator()
	for keys.Next(ctx) {
		if err := client.Unlink(ctx, keys.Val()).Err(); err != nil {
			return err
		}
	}
	return keys.Err()
}
