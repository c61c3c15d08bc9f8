package singleflight_test

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/singleflight"
)

func ExampleGroup() {
	var group singleflight.Group[string, int]
	pages, err := group.Do(context.Background(), "report 2026-01", func(context.Context) (int, error) {
		return 42, nil // many callers, one report
	})
	fmt.Println(pages, err)
	// Output: 42 <nil>
}

func ExampleCache() {
	prices := map[string]int{"tea": 3}
	cache := singleflight.NewCache(func(_ context.Context, product string) (int, error) {
		fmt.Println("load", product)
		if price, ok := prices[product]; ok {
			return price, nil
		}
		return 0, fmt.Errorf("no %s: %w", product, singleflight.ErrNotFound)
	}, &singleflight.CacheOptions[int]{TTL: time.Minute, NotFoundTTL: time.Second})
	ctx := context.Background()
	fmt.Println(cache.Get(ctx, "tea"))
	fmt.Println(cache.Get(ctx, "tea"))
	prices["tea"] = 4 // in a service: commit
	cache.Invalidate("tea")
	fmt.Println(cache.Get(ctx, "tea"))
	// Output:
	// load tea
	// 3 <nil>
	// 3 <nil>
	// load tea
	// 4 <nil>
}
