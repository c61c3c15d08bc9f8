package oncall

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/examples/internal/story"
	"github.com/holdfast-go/holdfast/tx"
)

const (
	shifts = 60
	wards  = 4 // shifts that change at the same time
)

var doctors = []string{"Alice", "Bob"}

var errSQLite = errors.New("this story needs PostgreSQL, give -dsn: SQLite has one writer at a time and no write skew")

// Run runs the story: the same closure at three isolation levels.
func Run(ctx context.Context, c story.Config) (story.Result, error) {
	if c.DSN == "" {
		return story.Result{}, errSQLite
	}
	place, err := story.NewPlace(ctx, c.DSN)
	if err != nil {
		return story.Result{}, err
	}
	defer place.Remove()
	r := story.Result{Story: "writeskew", Hazard: "two doctors leave, each because the other is there", Backend: story.Backend(c.DSN)}
	err = place.On(ctx,
		func(context.Context, *tx.DB[*sql.Tx]) error { return errSQLite },
		func(ctx context.Context, db *tx.DB[pgx.Tx]) error { return run(ctx, c, db, &r) })
	return r, err
}

func run(ctx context.Context, c story.Config, db *tx.DB[pgx.Tx], r *story.Result) error {
	if err := Migrate(ctx, db); err != nil {
		return err
	}
	r.NaiveDamage = -1
	for _, act := range []struct {
		name  string
		naive bool
		db    *tx.DB[pgx.Tx]
	}{
		{"READ COMMITTED", true, db.With(tx.Options{Isolation: tx.ReadCommitted})},
		{"REPEATABLE READ", true, db.With(tx.Options{Isolation: tx.RepeatableRead})},
		{"SERIALIZABLE", false, Serializable(db)},
	} {
		if _, err := db.Conn().Exec(ctx, "truncate on_call"); err != nil {
			return err
		}
		_, err := db.Conn().Exec(ctx, "insert into on_call (shift, doctor) select s, d from generate_series(1, $1::int) s, unnest($2::text[]) d", shifts, doctors)
		if err != nil {
			return err
		}
		left, retries, err := rush(ctx, act.db)
		if err != nil {
			return err
		}
		var off, empty int
		query := "select count(*) filter (where not present), count(distinct shift) - count(distinct shift) filter (where present) from on_call"
		if err := db.Conn().QueryRow(ctx, query).Scan(&off, &empty); err != nil {
			return err
		}
		c.Logf("%-15s %d doctors asked to leave %d shifts: %d were told yes, %d shifts without a doctor, %d transactions ran again",
			act.name, shifts*len(doctors), shifts, left, empty, retries)
		r.Operations += shifts * len(doctors)
		if act.naive {
			if r.NaiveDamage < 0 || empty < r.NaiveDamage {
				r.NaiveDamage = empty
			}
			continue
		}
		r.Damage += empty + max(left-off, off-left) // who was told yes is off, and nobody else
	}
	r.Judge()
	return nil
}

// rush lets the doctors of each shift ask at the same moment. It counts those that may leave, and the transactions that
// had to run again.
func rush(ctx context.Context, db *tx.DB[pgx.Tx]) (left, retries int, err error) {
	var yes, again atomic.Int64
	db = db.Observed(holdfast.ObserverFunc(func(_ context.Context, e holdfast.Event) {
		if e.Kind == tx.EventRetried {
			again.Add(1)
		}
	}))
	var mu sync.Mutex // guards errs
	var errs []error
	for first := 1; first <= shifts; first += wards {
		start := make(chan struct{})
		var wg sync.WaitGroup
		for shift := first; shift < min(first+wards, shifts+1); shift++ {
			for _, doctor := range doctors {
				wg.Go(func() {
					<-start
					switch err := Leave(ctx, db, shift, doctor); {
					case err == nil:
						yes.Add(1)
					case !errors.Is(err, ErrNeeded):
						mu.Lock()
						defer mu.Unlock()
						errs = append(errs, err)
					}
				})
			}
		}
		close(start)
		wg.Wait()
	}
	return int(yes.Load()), int(again.Load()), errors.Join(errs...)
}
