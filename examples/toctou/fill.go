package main

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/singleflight"
)

// A price is a row of a database. between stands for a writer who commits after it was read, and then invalidates the cache.
type price struct {
	committed int
	between   func()
}

func (p *price) load(context.Context, string) (int, error) {
	read := p.committed
	if between := p.between; between != nil {
		p.between = nil
		between()
	}
	return read, nil
}

// fillNaive reads what is missing, and stores it.
func fillNaive(ctx context.Context, cache map[string]int, p *price) {
	if _, ok := cache["tea"]; !ok {
		cache["tea"], _ = p.load(ctx, "tea")
	}
}

func fill(ctx context.Context) (naive, ours int, err error) {
	cache, p := map[string]int{}, &price{committed: 3}
	p.between = func() {
		p.committed = 4
		delete(cache, "tea") // there is nothing yet
	}
	fillNaive(ctx, cache, p)
	if cache["tea"] != p.committed {
		naive++
	}

	p = &price{committed: 3}
	fenced := singleflight.NewCache(p.load, &singleflight.CacheOptions[int]{TTL: time.Hour})
	p.between = func() {
		p.committed = 4
		fenced.Invalidate("tea") // and what is being read will not be stored
	}
	if _, err := fenced.Get(ctx, "tea"); err != nil { // this caller was there before the change
		return naive, ours, err
	}
	got, err := fenced.Get(ctx, "tea")
	if got != p.committed {
		ours++
	}
	return naive, ours, err
}
