package box

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/counter"
	"github.com/holdfast-go/holdfast/examples/internal/story"
	"github.com/holdfast-go/holdfast/tx"
)

// A show is one sale.
type show struct {
	name   string
	seats  int64
	slots  int
	buyers int   // at the same moment
	most   int64 // seats that one wants
	repeat bool  // each buys until it is told that there is none
}

// tries bounds how often one buyer asks: the naive box office would go on for long.
const tries = 100

var shows = []show{
	{name: "the last ticket", seats: 1, slots: 1, buyers: 500, most: 1},
	{name: "the hall", seats: 1000, slots: 16, buyers: 64, most: 4, repeat: true},
}

// Run runs the story: both sales at a naive box office and at ours.
func Run(ctx context.Context, c story.Config) (story.Result, error) {
	place, err := story.NewPlace(ctx, c.DSN)
	if err != nil {
		return story.Result{}, err
	}
	defer place.Remove()
	r := story.Result{Story: "tickets", Hazard: "stock oversold", Backend: story.Backend(c.DSN)}
	err = place.On(ctx,
		func(ctx context.Context, db *tx.DB[*sql.Tx]) error { return run(ctx, c, db, &r) },
		func(ctx context.Context, db *tx.DB[pgx.Tx]) error { return run(ctx, c, db, &r) })
	return r, err
}

func run[T any](ctx context.Context, c story.Config, db *tx.DB[T], r *story.Result) error {
	if err := Migrate(ctx, db); err != nil {
		return err
	}
	// Each call has a commit of its own, as with a box office in many processes: it is the slots that are shown.
	ours := Counted[T]{counter.New(db, &counter.Options{MaxBatch: 1})}
	for _, s := range shows {
		if _, err := db.Conn().Exec(ctx, "insert into hall (name, seats) values ($1, $2)", s.name, s.seats); err != nil {
			return err
		}
		if err := ours.Open(ctx, s.name, s.seats, s.slots); err != nil {
			return err
		}
		sold, asked, err := s.sale(ctx, Naive[T]{db})
		if err != nil {
			return err
		}
		over := int(max(sold-s.seats, 0))
		c.Logf("%-16s naive: %d seats, %d sold, %d oversold", s.name, s.seats, sold, over)
		r.NaiveDamage += over
		sold, asks, err := s.sale(ctx, ours)
		if err != nil {
			return err
		}
		left, err := ours.Seats.Get(ctx, s.name)
		if err != nil {
			return err
		}
		over = int(max(sold-s.seats, 0))
		c.Logf("%-16s ours:  %d seats in %d slots, %d sold, %d oversold, %d left", s.name, s.seats, s.slots, sold, over, left)
		r.Operations += asked + asks
		r.Damage += over + int(max(left, 0)) + int(max(s.seats-left-sold, 0))
	}
	r.Judge()
	return nil
}

// sale lets all buyers in at once. It returns how many seats they were sold, and how often they asked.
func (s show) sale(ctx context.Context, office Office) (sold int64, asked int, err error) {
	var total, asks atomic.Int64
	errs := make([]error, s.buyers)
	var all sync.WaitGroup
	start := make(chan struct{})
	for buyer := range s.buyers {
		all.Go(func() {
			<-start
			for n, try := 1+int64(buyer)%s.most, 0; n > 0 && try < tries; try++ { // the last buyers take what is left, one by one
				asks.Add(1)
				ok, err := office.Sell(ctx, s.name, n)
				switch {
				case err != nil:
					errs[buyer] = err
					return
				case ok:
					total.Add(n)
				default:
					n--
				}
				if !s.repeat {
					return
				}
			}
		})
	}
	close(start)
	all.Wait()
	return total.Load(), int(asks.Load()), errors.Join(errs...)
}
