package tx

import (
	"context"
	"time"
)

// turns lets the closures of a DB that run again go one at a time. Callers that want the same rows at SERIALIZABLE abort each
// other for as long as they meet: in turn, each gets through. It is a courtesy and no lock: who has waited long enough goes
// without, so that a slow transaction holds up nobody, and two databases cannot wait for each other.
type turns chan struct{}

func newTurns() turns { return make(turns, 1) }

// run calls fn in turn, or without one if none came within the bound. If ctx ends first it returns the cause of that.
func (q turns) run(ctx context.Context, bound time.Duration, fn func()) error {
	timer := time.NewTimer(bound)
	defer timer.Stop()
	select {
	case q <- struct{}{}:
		defer func() { <-q }()
	case <-timer.C:
	case <-ctx.Done():
	}
	if cause := context.Cause(ctx); cause != nil { // also when both were ready
		return cause
	}
	fn()
	return nil
}
