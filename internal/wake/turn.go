package wake

import (
	"context"
	"slices"
	"time"
)

// JoinInTurn is Join for what only one can have: of those of this process who wait for key in turn, the first looks, for all of them.
// The others wait for [Waiter.Turn], and cost nothing meanwhile.
func (l *Line) JoinInTurn(key string) *Waiter {
	w := l.Join(key)
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	w.turn = make(chan struct{})
	w.at.queue = append(w.at.queue, w)
	w.at.advance()
	return w
}

// Turn waits until the waiter is the first of those in turn, or returns the cause of the end of ctx. It waits no longer than so long:
// those ahead may be stuck. It reports whether there was something to wait for: what the waiter knows is of before then. Who did
// not join in turn is first.
func (w *Waiter) Turn(ctx context.Context, longest time.Duration) (waited bool, err error) {
	if w.turn == nil {
		return false, nil
	}
	select {
	case <-w.turn:
		return false, nil
	default:
	}
	timer := time.NewTimer(longest)
	defer timer.Stop()
	select {
	case <-w.turn:
	case <-timer.C:
	case <-ctx.Done():
		return true, context.Cause(ctx)
	}
	w.look()
	return true, nil
}

// advance tells the first that it is. The hub's mutex is held.
func (p *place) advance() {
	if len(p.queue) > 0 && !p.queue[0].first {
		p.queue[0].first = true
		close(p.queue[0].turn)
	}
}

// quit takes w out of the queue, if it is in one. The hub's mutex is held.
func (p *place) quit(w *Waiter) {
	if i := slices.Index(p.queue, w); i >= 0 {
		p.queue = slices.Delete(p.queue, i, i+1)
		p.advance()
	}
}
