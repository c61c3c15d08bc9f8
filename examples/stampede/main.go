// Command stampede shows a key of a cache that expires, and is invalidated, while 500 callers want it.
//
//	go run ./examples/stampede
//	go run ./examples/stampede -redis redis://127.0.0.1:6379
//
// In each round the key has expired, and 500 callers ask for it. While the first load is under way, a writer commits a new
// version and invalidates the key; 500 more ask then, and 500 when all is quiet. The usual cache loads once for each caller. With
// golang.org/x/sync/singleflight around the load it does not, and still stores what the slow load had read before the change:
// everybody gets that until it expires. With singleflight.Cache (herd/herd.go) there is one load for an expiry and one for a
// change, and nobody who asks after the change gets what was there before it:
//
//	products := singleflight.NewCache(load, nil)
//	product, err := products.Get(ctx, id)
//	products.Invalidate(id) // after the commit
//
// With -redis the callers are in three processes that share a cache in Redis (herd/redis.go). x/sync then loads once in each, and
// stores what is stale as before; redisflight.Cache loads once for all, and the change keeps the slow load of whichever process
// out of the cache:
//
//	products := redisflight.New(client, load, nil)
//
// It exits with 1 if ours loaded more often or gave a stale answer, and also if a naive cache came through.
package main

import (
	"context"

	"github.com/holdfast-go/holdfast/examples/internal/story"
	"github.com/holdfast-go/holdfast/examples/stampede/herd"
)

func main() {
	story.Main(func(ctx context.Context, c story.Config) (story.Result, error) {
		if c.Redis != "" {
			return herd.RunProcesses(ctx, c)
		}
		return herd.Run(ctx, c)
	})
}
