package main

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
)

// openOurs has the effect in a step, whose child key is the reference that goes with it.
func openOurs(ctx context.Context, o order) (func(context.Context, string) error, error) {
	pool, err := o.pool(ctx)
	if err != nil {
		return nil, err
	}
	db := pgxtx.New(pool)
	if err := idem.Migrate(ctx, db, idem.Names{}); err != nil {
		return nil, err
	}
	keys := idem.NewLeased(idem.New(db, nil), &idem.LeaseOptions{
		Lease: leaseTime, Wait: 2 * leaseTime, RetryAfter: 100 * time.Millisecond, LongestRetry: leaseTime,
	})
	return func(ctx context.Context, key string) error {
		_, err := idem.DoLeased(ctx, keys, idemKey(key), func(ctx context.Context, run *idem.RunTx[pgx.Tx]) (string, error) {
			return idem.Step(ctx, run, idem.External[string]{
				Name: "effect",
				Call: func(ctx context.Context, child string) (string, error) { return key, o.work(ctx, key, child) },
				Reconcile: func(ctx context.Context, child string) (string, idem.Landing, error) {
					err := o.call(ctx, http.MethodGet, "/effect", key, child)
					switch {
					case err == nil:
						return key, idem.Landed, nil
					case errors.Is(err, errAbsent):
						return key, idem.Absent, nil
					}
					return key, idem.Unsure, err
				},
			})
		})
		return err
	}, keys.Check(ctx)
}
