package views

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/examples/internal/story"
	"github.com/holdfast-go/holdfast/tx"
)

const (
	readers = 32
	each    = 10 // views of a reader
	again   = 4  // one view in so many is asked for again, since its answer got lost
)

// Run runs the story: two naive services and ours, each with the same views.
func Run(ctx context.Context, c story.Config) (story.Result, error) {
	place, err := story.NewPlace(ctx, c.DSN)
	if err != nil {
		return story.Result{}, err
	}
	defer place.Remove()
	r := story.Result{Story: "counters", Hazard: "counter increments lost, or doubled by a retry", Backend: story.Backend(c.DSN)}
	err = place.On(ctx,
		func(ctx context.Context, db *tx.DB[*sql.Tx]) error { return run(ctx, c, db, &r) },
		func(ctx context.Context, db *tx.DB[pgx.Tx]) error { return run(ctx, c, db, &r) })
	return r, err
}

func run[T any](ctx context.Context, c story.Config, db *tx.DB[T], r *story.Result) error {
	if err := Migrate(ctx, db); err != nil {
		return err
	}
	r.NaiveDamage = -1
	for _, act := range []struct {
		name    string
		naive   bool
		service Service
	}{
		{"read, add, write", true, Absolute[T]{db}},
		{"upsert, n + 1", true, Upsert[T]{db}},
		{"counter.Add, Once", false, NewCounted(db)},
	} {
		if _, err := db.Conn().Exec(ctx, "insert into page (name, n) values ($1, 0)", act.name); err != nil {
			return err
		}
		if err := rush(ctx, act.service, act.name); err != nil {
			return err
		}
		var n int
		if err := db.Conn().QueryRow(ctx, "select n from page where name = $1", act.name).Scan(&n); err != nil {
			return err
		}
		lost, double := max(readers*each-n, 0), max(n-readers*each, 0)
		c.Logf("%-18s %d views by %d readers, one in %d asked for again: %d counted, %d lost, %d doubled",
			act.name, readers*each, readers, again, n, lost, double)
		r.Operations += readers * each
		switch damage := lost + double; {
		case !act.naive:
			r.Damage += damage
		case r.NaiveDamage < 0 || damage < r.NaiveDamage:
			r.NaiveDamage = damage
		}
	}
	r.Judge()
	return nil
}

// rush lets all readers open the page.
func rush(ctx context.Context, s Service, page string) error {
	errs := make([]error, readers)
	var all sync.WaitGroup
	for reader := range readers {
		all.Go(func() {
			for view := range each {
				tries := 1
				if view%again == 0 {
					tries = 2 // it was counted, and the reader does not know
				}
				for range tries {
					errs[reader] = errors.Join(errs[reader], s.View(ctx, page, fmt.Sprintf("request-%d-%d", reader, view)))
				}
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
