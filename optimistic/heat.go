package optimistic

import (
	"context"
	"hash/maphash"
	"sync/atomic"
	"time"
)

// hotFor is for how long a row counts as hot after somebody had to lock it.
const hotFor = 200 * time.Millisecond

// queueTimeout bounds the wait for other callers in this process.
const queueTimeout = time.Second

// heat remembers which rows were fought over of late, so that the next one does not have to find out. Two rows may share a
// place: that costs one a lock that it did not need.
type heat struct{ places [256]place }

// A place is what this process knows of a row.
type place struct {
	until  atomic.Int64 // hot until then, 0 if it never was
	inside atomic.Int32 // how many Updates are under way
	turn   atomic.Pointer[chan struct{}]
}

var seed = maphash.MakeSeed()

var started = time.Now()

func (h *heat) of(key any) *place {
	return &h.places[maphash.String(seed, nameOf(key))%uint64(len(h.places))]
}

func (p *place) mark() { p.until.Store(int64(time.Since(started) + hotFor)) }

func (p *place) hot() bool {
	until := p.until.Load()
	return until != 0 && int64(time.Since(started)) < until
}

// queueRoom is how many callers of this process are at a row at once: one that commits, and one whose lock waits at the server
// meanwhile, so that no round trip is lost between the two.
const queueRoom = 2

// queue waits for the turn of a caller in this process, so that few connections wait for the row and not all of the pool. It
// is no lock: who has waited for long goes on without it, and the row lock decides. If ctx ends it returns the cause.
func (p *place) queue(ctx context.Context) (leave func(), ended error) {
	turn := p.turn.Load()
	if turn == nil {
		fresh := make(chan struct{}, queueRoom)
		p.turn.CompareAndSwap(nil, &fresh)
		turn = p.turn.Load()
	}
	leave = func() {}
	timer := time.NewTimer(queueTimeout)
	defer timer.Stop()
	select {
	case *turn <- struct{}{}:
		leave = func() { <-*turn }
	case <-timer.C:
	case <-ctx.Done():
	}
	if ended = context.Cause(ctx); ended != nil { // also when both were ready
		leave()
	}
	return leave, ended
}
