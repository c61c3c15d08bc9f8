package pay

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/examples/internal/story"
	"github.com/holdfast-go/holdfast/tx"
)

// Numbers of one run.
const (
	payments  = 80
	customers = 6 // at once
)

// Run runs the story: the same customers against the naive service and against ours.
func Run(ctx context.Context, c story.Config) (story.Result, error) {
	r := story.Result{Story: "payments", Hazard: "retried or double-clicked POST", Backend: story.Backend(c.DSN)}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	naive, err := try(ctx, c, "naive", naiveServer)
	if err != nil {
		return r, err
	}
	ours, err := try(ctx, c, "holdfast", oursServer)
	if err != nil {
		return r, err
	}
	for _, w := range ours.wrong {
		c.Logf("wrong answer: %s", w)
	}
	r.Operations = naive.requests + ours.requests
	r.Kills = naive.kills + ours.kills
	r.NaiveDamage = naive.doubled + naive.missing + naive.untold
	r.Damage = ours.doubled + ours.missing + ours.untold + len(ours.wrong)
	r.Judge()
	return r, nil
}

// try lets the customers loose on a server with an empty database, and audits what is left.
func try(ctx context.Context, c story.Config, name, server string) (report, error) {
	var r report
	place, err := story.NewPlace(ctx, c.DSN)
	if err != nil {
		return r, err
	}
	defer place.Remove()
	if err := place.On(ctx, Migrate[*sql.Tx], Migrate[pgx.Tx]); err != nil {
		return r, err
	}
	var cl *client
	err = story.Serve(ctx, c, place, server, payments*clicks, func(ctx context.Context, s *story.Server) error {
		cl = newClient(s)
		return rush(ctx, cl)
	})
	if err != nil {
		return r, err
	}
	err = place.On(ctx,
		func(ctx context.Context, db *tx.DB[*sql.Tx]) error { r, err = audit(ctx, db.Conn(), cl); return err },
		func(ctx context.Context, db *tx.DB[pgx.Tx]) error { r, err = audit(ctx, db.Conn(), cl); return err })
	if err != nil {
		return r, err
	}
	c.Logf("%-8s %4d requests for %d payments: %d charges, %d.%02d lost, %d receipts without a charge, %d wrong answers, killed %d times",
		name, r.requests, r.payments, r.charges, r.lost/100, r.lost%100, r.missing, len(r.wrong), r.kills)
	return r, nil
}

// rush lets some customers shop at once.
func rush(ctx context.Context, cl *client) error {
	queue := make(chan int, payments)
	for n := range payments {
		queue <- n
	}
	close(queue)
	errs := make([]error, customers)
	var wg sync.WaitGroup
	for i := range customers {
		wg.Go(func() {
			for n := range queue {
				errs[i] = errors.Join(errs[i], customer(ctx, cl.at(n), n))
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
