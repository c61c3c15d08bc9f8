package tx

import "sync"

// A Budget bounds the runs beyond the first of all transactions that share it, so that a storm of conflicts does not
// multiply the load: together they are at most burst, and ratio for each transaction that committed. Give one to
// [Options].RetryBudget of every DB on the same server. It is safe for concurrent use.
type Budget struct {
	ratio float64
	burst float64

	mu   sync.Mutex // guards left
	left float64
}

// NewBudget returns a full budget: burst runs beyond the first, which are earned again at ratio for each transaction that
// commits. A ratio of 0.5 adds at most half of the load; a burst of some tens lets a few callers through a conflict
// when there is little else going on. What is negative, or no number, counts as 0.
func NewBudget(ratio float64, burst int) *Budget {
	if !(ratio > 0) { // nor is it a number
		ratio = 0
	}
	b := &Budget{ratio: ratio, burst: float64(max(burst, 0))}
	b.left = b.burst
	return b
}

// take reports whether a transaction may run again. A nil budget has no bound.
func (b *Budget) take() bool {
	if b == nil {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}

// earn counts a transaction that committed.
func (b *Budget) earn() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left = min(b.left+b.ratio, b.burst)
}
