package register

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/examples/internal/story"
	"github.com/holdfast-go/holdfast/tx"
)

const (
	rounds  = 60 // addresses, and slots
	callers = 8  // at once
)

// Run runs the story: the same requests against look-then-insert and against constraints.
func Run(ctx context.Context, c story.Config) (story.Result, error) { return open(ctx, c, false) }

// RunOverlaps runs it with bookings that overlap without beginning together. SQLite has no constraint against those.
func RunOverlaps(ctx context.Context, c story.Config) (story.Result, error) {
	return open(ctx, c, true)
}

func open(ctx context.Context, c story.Config, overlaps bool) (story.Result, error) {
	place, err := story.NewPlace(ctx, c.DSN)
	if err != nil {
		return story.Result{}, err
	}
	defer place.Remove()
	r := story.Result{Story: "signup", Hazard: "two requests create the same user or booking", Backend: story.Backend(c.DSN)}
	if overlaps {
		r.Story, r.Hazard = "overlaps", "two bookings that overlap"
	}
	err = place.On(ctx,
		func(ctx context.Context, db *tx.DB[*sql.Tx]) error { return run(ctx, c, db, overlaps, &r) },
		func(ctx context.Context, db *tx.DB[pgx.Tx]) error { return run(ctx, c, db, overlaps, &r) })
	return r, err
}

func run[T any](ctx context.Context, c story.Config, db *tx.DB[T], overlaps bool, r *story.Result) error {
	if err := Migrate(ctx, db); err != nil {
		return err
	}
	email := func(n int) string { return fmt.Sprintf("user%d@example.com", n) }
	minute := func(n, caller int) int {
		if overlaps {
			return 60*n + caller
		}
		return 60 * n
	}
	type act struct {
		name  string
		naive bool
		table string
		key   string
		do    func(n, caller int) error
	}
	acts := []act{
		{"naive signup", true, "naive_member", "email", func(n, _ int) error { return NaiveRegister(ctx, db, email(n)) }},
		{"naive booking", true, "naive_booking", "start / 60", func(n, caller int) error {
			return NaiveBook(ctx, db, fmt.Sprint("guest ", caller), 1, minute(n, caller), 50)
		}},
		{"signup", false, "member", "email", func(n, _ int) error { return Register(ctx, db, email(n)) }},
		{"booking", false, "booking", "start / 60", func(n, caller int) error {
			return Book(ctx, db, fmt.Sprint("guest ", caller), 1, minute(n, caller), 50)
		}},
	}
	if overlaps {
		acts = []act{acts[1], acts[3]}
	}
	r.NaiveDamage = -1
	for _, a := range acts {
		won, err := rush(a.do)
		if err != nil {
			return err
		}
		var rows, unique int
		query := fmt.Sprintf("select count(*), count(distinct %s) from %s", a.key, a.table)
		if err := db.Conn().QueryRow(ctx, query).Scan(&rows, &unique); err != nil {
			return err
		}
		doubled := rows - unique
		c.Logf("%-14s %d requests for %d: %d were told yes, %d rows, %d too many", a.name, rounds*callers, rounds, won, rows, doubled)
		r.Operations += rounds * callers
		if a.naive {
			if r.NaiveDamage < 0 || doubled < r.NaiveDamage {
				r.NaiveDamage = doubled
			}
			continue
		}
		r.Damage += doubled + abs(won-rows) + abs(rounds-rows)
	}
	r.Judge()
	return nil
}

// rush lets callers want the same thing at the same moment, and counts those that were told that they have it.
func rush(do func(n, caller int) error) (won int, err error) {
	var yes atomic.Int64
	errs := make([]error, callers)
	for n := range rounds {
		start := make(chan struct{})
		var wg sync.WaitGroup
		for caller := range callers {
			wg.Go(func() {
				<-start
				switch err := do(n, caller); {
				case err == nil:
					yes.Add(1)
				case !errors.Is(err, ErrTaken) && !errors.Is(err, ErrBooked):
					errs[caller] = err
				}
			})
		}
		close(start)
		wg.Wait()
	}
	return int(yes.Load()), errors.Join(errs...)
}

func abs(n int) int { return max(n, -n) }
