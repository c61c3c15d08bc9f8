package retry

import (
	"math"
	"sync/atomic"
)

// A Budget bounds the attempts beyond the first of all calls that share it, so that a target that is down does not get the
// load many times over: together they are at most burst, and ratio for each call that succeeded. Give one to the policies of
// each target, and not the same one to those of two. It is a bucket of tokens, never waits, and is safe for concurrent use.
type Budget struct {
	left         atomic.Int64
	full, earned int64
}

// token is the price of an attempt; a fraction of it can be earned.
const token = 1_000_000

// NewBudget returns a full budget: burst attempts beyond the first, which are earned again at ratio for each call that
// succeeds. A ratio of 0.1 adds at most a tenth to the load. What is negative, or no number, counts as 0.
func NewBudget(ratio float64, burst int) *Budget {
	if !(ratio > 0) { // nor is it a number
		ratio = 0
	}
	full := min(int64(max(burst, 0)), math.MaxInt64/2/token) * token
	b := &Budget{full: full, earned: int64(min(ratio*token, float64(full)))}
	b.left.Store(full)
	return b
}

// take reports whether there may be another attempt. A nil budget has no bound.
func (b *Budget) take() bool {
	if b == nil {
		return true
	}
	for {
		left := b.left.Load()
		if left < token {
			return false
		}
		if b.left.CompareAndSwap(left, left-token) {
			return true
		}
	}
}

// giveBack undoes take, for an attempt that was not made after all.
func (b *Budget) giveBack() { b.add(token) }

// earn counts a call that succeeded.
func (b *Budget) earn() {
	if b != nil {
		b.add(b.earned)
	}
}

func (b *Budget) add(amount int64) {
	if b == nil {
		return
	}
	for {
		left := b.left.Load()
		if left >= b.full || b.left.CompareAndSwap(left, min(left+amount, b.full)) {
			return
		}
	}
}
