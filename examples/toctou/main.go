// Command toctou shows three places where to look and then to act goes wrong, and what holds. The page is README.md.
//
//	go run ./examples/toctou
//
// It exits with 1 if what should hold does not, or if a naive way came through.
package main

import (
	"context"
	"fmt"
	"os"
)

func main() {
	ctx, failed := context.Background(), false
	for _, c := range []struct {
		name string
		run  func(ctx context.Context) (naive, ours int, err error)
	}{
		{"unlink: errors although the file is gone", unlink},
		{"fill: a stale value stays in the cache", fill},
		{"capture: charges too many", capture},
	} {
		naive, ours, err := c.run(ctx)
		fmt.Printf("%-42s naive %d, ours %d\n", c.name, naive, ours)
		if err != nil || naive == 0 || ours != 0 {
			failed = true
			fmt.Fprintln(os.Stderr, c.name, "does not hold:", err)
		}
	}
	if failed {
		os.Exit(1)
	}
}
