package redisidem_test

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/idem/redisidem"
)

// A charge at a provider that honours keys. Whatever dies meanwhile, the provider gets the same key.
func Example() {
	var client *redis.Client // open
	var provider *provider   // a client of the provider, with Charge and Find
	store := redisidem.New(client, nil)
	keys := idem.NewLeasedOn(store, &idem.LeaseOptions{TTL: 7 * 24 * time.Hour})

	start := func(ctx context.Context) error { return keys.Check(ctx) } // refuses a server that may evict keys
	charge := func(ctx context.Context, key idem.Key) (idem.Result[string], error) {
		return idem.DoLeased(ctx, keys, key, func(ctx context.Context, run *idem.Run) (string, error) {
			return idem.Step(ctx, run, idem.External[string]{Name: "charge", Call: provider.Charge, Reconcile: provider.Find})
		})
	}
	_, _ = start, charge
}

// A handler is what another process goes on with where one died.
func Example_complete() {
	var client *redis.Client
	keys := idem.NewLeasedOn(redisidem.New(client, nil), nil)

	type order struct{ Number string }
	ship := idem.Handle(keys, "ship", func(ctx context.Context, run *idem.Run, o order) (string, error) {
		return "shipped " + o.Number, run.Check()
	})
	serve := func(ctx context.Context) error {
		go func() { _ = keys.CompleteEvery(ctx, time.Minute) }()
		_, err := ship.Do(ctx, idem.Key{Scope: "tenant", Value: "order 7"}, order{"7"})
		return err
	}
	_ = serve
}
