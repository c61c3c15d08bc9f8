package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A variant is one way to do an operation.
type variant struct {
	name string
	// op does it once. seq is different at each call. worker is below the number of concurrent callers.
	op func(ctx context.Context, worker int, seq int64) error
}

// A slice is what one variant did in a short time.
type slice struct{ rate, allocs float64 }

// plan says how to measure.
type plan struct {
	slice  time.Duration
	rounds int
}

// measure runs the variants in turn, in short slices, so that whatever else the machine does meets all of them alike. The
// result has a slice for each variant in each round.
func (p plan) measure(ctx context.Context, variants []variant, callers int) ([][]slice, error) {
	rounds := make([][]slice, p.rounds)
	for warmup := range variants {
		if _, err := run(ctx, variants[warmup], callers, p.slice/4); err != nil {
			return nil, err
		}
	}
	for round := range rounds {
		rounds[round] = make([]slice, len(variants))
		for i := range variants {
			at := (i + round) % len(variants) // nobody always follows the same one
			s, err := run(ctx, variants[at], callers, p.slice)
			if err != nil {
				return nil, err
			}
			rounds[round][at] = s
		}
	}
	return rounds, nil
}

var sequence atomic.Int64

// run calls the variant from as many goroutines for as long.
func run(ctx context.Context, v variant, callers int, length time.Duration) (slice, error) {
	var (
		all   sync.WaitGroup
		total atomic.Int64
		fail  = make(chan error, callers)
		mem   [2]runtime.MemStats
	)
	runtime.GC() // what the last one left behind is not this one's
	runtime.ReadMemStats(&mem[0])
	begun := time.Now()
	end := begun.Add(length)
	for worker := range callers {
		all.Go(func() {
			for time.Now().Before(end) {
				if err := v.op(ctx, worker, sequence.Add(1)); err != nil {
					fail <- fmt.Errorf("%s: %w", v.name, err)
					return
				}
				total.Add(1)
			}
		})
	}
	all.Wait()
	took := time.Since(begun)
	runtime.ReadMemStats(&mem[1])
	select {
	case err := <-fail:
		return slice{}, err
	default:
	}
	n := float64(total.Load())
	return slice{rate: n / took.Seconds(), allocs: float64(mem[1].Mallocs-mem[0].Mallocs) / n}, nil
}

// rate is the median of a variant's rates.
func rate(rounds [][]slice, at int) float64 {
	return median(rounds, func(r []slice) float64 { return r[at].rate })
}

// allocs is the median of a variant's allocations.
func allocs(rounds [][]slice, at int) float64 {
	return median(rounds, func(r []slice) float64 { return r[at].allocs })
}

// ratio is the median of the ratios of two variants in the same round.
func ratio(rounds [][]slice, at, reference int) float64 {
	return median(rounds, func(r []slice) float64 { return r[at].rate / r[reference].rate })
}

func median(rounds [][]slice, of func([]slice) float64) float64 {
	values := make([]float64, len(rounds))
	for i, r := range rounds {
		values[i] = of(r)
	}
	slices.Sort(values)
	if n := len(values); n%2 == 0 {
		return (values[n/2-1] + values[n/2]) / 2
	}
	return values[len(values)/2]
}
