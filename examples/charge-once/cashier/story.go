// Package cashier is the charge-once story: a service that charges cards at a provider, and dies, stands still, and loses
// connections.
package cashier

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-go/holdfast/examples/internal/story"
	"github.com/holdfast-go/holdfast/tx"
)

// The ways to pay.
const (
	wayNaive  = "check, charge, save"
	wayKeyed  = "the same, with a key"
	wayByHand = "a lock and a table"
	wayOurs   = "idem steps"
)

var ways = []string{wayNaive, wayKeyed, wayByHand, wayOurs}

// crowd is how many acts are played at a time.
const crowd = 4

// Run runs the story: every act in every way.
func Run(ctx context.Context, c story.Config) (story.Result, error) {
	r := story.Result{Story: "charge-once", Hazard: "a crash between the provider's charge and our save", Backend: story.Backend(c.DSN)}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for _, a := range acts {
		if a.on(c.DSN) && (a.fate == killed || a.fate == killedInCall) {
			r.Kills += len(ways)
		}
	}
	for _, way := range ways {
		report, err := try(ctx, c, way)
		if err != nil {
			return r, fmt.Errorf("%s: %w", way, err)
		}
		r.Operations += report.clients
		if way == wayOurs {
			r.Damage = report.damage()
			continue
		}
		if r.NaiveDamage == 0 || report.damage() < r.NaiveDamage {
			r.NaiveDamage = report.damage()
		}
	}
	r.Judge()
	return r, nil
}

// try plays all acts in one way, and audits what is left.
func try(ctx context.Context, c story.Config, way string) (r report, err error) {
	place, err := story.NewPlace(ctx, c.DSN)
	if err != nil {
		return r, err
	}
	defer place.Remove()
	if err := place.On(ctx, Migrate[*sql.Tx], Migrate[pgx.Tx]); err != nil {
		return r, err
	}
	provider, stop, err := story.StartChild(ctx, "provider", "")
	if err != nil {
		return r, err
	}
	defer stop()
	answers, err := playAll(ctx, c, stage{way, place, provider})
	if err != nil {
		return r, err
	}
	err = place.On(ctx,
		func(ctx context.Context, db *tx.DB[*sql.Tx]) error {
			r, err = end(ctx, db, way, provider, answers)
			return err
		},
		func(ctx context.Context, db *tx.DB[pgx.Tx]) error {
			r, err = end(ctx, db, way, provider, answers)
			return err
		})
	c.Logf("%-21s %d orders, %d charges: %d charged again, %d not recorded, %d clients not told", way, len(answers), r.charges, r.again, r.unrecorded, r.untold)
	if way == wayOurs {
		c.Logf("%-21s %d orders were without an answer when their client was gone, %d are now", "", r.left, r.open)
	}
	return r, err
}

// end cleans up behind the clients, where the way has a means to, and audits.
func end[T any](ctx context.Context, db *tx.DB[T], way, provider string, answers map[string][]string) (report, error) {
	left, open := 0, 0
	if way == wayOurs {
		var err error
		if left, open, err = cleanUp(ctx, NewCashier(db, Remote{provider, http.DefaultClient}, book, patient)); err != nil {
			return report{}, err
		}
	}
	r, err := audit(ctx, db.Conn(), provider, answers)
	r.left, r.open = left, open
	return r, err
}

// cleanUp cleans up until nothing is left, and returns how many keys were at first, and are in the end.
func cleanUp[T any](ctx context.Context, c *Cashier[T]) (left, open int, err error) {
	if left, err = c.Open(ctx); err != nil {
		return 0, 0, err
	}
	open = left
	for late := time.After(patience); open > 0; {
		if err := c.CleanUp(ctx); err != nil {
			return 0, 0, err
		}
		if open, err = c.Open(ctx); err != nil {
			return 0, 0, err
		}
		select {
		case <-time.After(20 * time.Millisecond): // a lease has to run out, and an unknown to be due
		case <-late:
			return left, open, nil
		case <-ctx.Done():
			return 0, 0, ctx.Err()
		}
	}
	return left, open, nil
}

// playAll returns what the clients were told, by order.
func playAll(ctx context.Context, c story.Config, s stage) (map[string][]string, error) {
	var mu sync.Mutex
	answers := map[string][]string{}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(crowd)
	for _, a := range acts {
		if !a.on(c.DSN) {
			continue
		}
		g.Go(func() error {
			given, err := s.play(ctx, a)
			if err != nil {
				return fmt.Errorf("%s: %w", a.title, err)
			}
			mu.Lock()
			defer mu.Unlock()
			answers[a.order()] = given
			return nil
		})
	}
	return answers, g.Wait()
}
