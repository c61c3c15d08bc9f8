// Command stampede shows a key of a cache that expires, and is invalidated, while 500 callers want it.
//
//	go run ./examples/stampede
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
// It exits with 1 if ours loaded more often or gave a stale answer, and also if a naive cache came through.
package main

import (
	"github.com/holdfast-go/holdfast/examples/internal/story"
	"github.com/holdfast-go/holdfast/examples/stampede/herd"
)

func main() { story.Main(herd.Run) }
