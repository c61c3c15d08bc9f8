// Package jitter computes waiting times that keep callers from coming back at the same moment.
package jitter

import (
	"math/rand/v2"
	"time"
)

// Full returns a random duration in (0, d], where d is base doubled attempt-1 times and never more than limit: the "full
// jitter" of https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/. attempt counts from 1. It does
// not overflow at any attempt.
func Full(base, limit time.Duration, attempt int) time.Duration {
	d := min(base, limit)
	for i := 1; i < attempt && d > 0 && d < limit; i++ {
		if d > limit/2 {
			d = limit
			break
		}
		d *= 2
	}
	if d <= 0 {
		return 0
	}
	return time.Duration(rand.Int64N(int64(d))) + 1
}
