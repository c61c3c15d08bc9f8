package counter

import (
	"context"
	"fmt"
	"runtime"
	"sync"

	"github.com/holdfast-go/holdfast/tx"
)

// lanes let concurrent calls for one counter share commits: what comes while one is under way goes into the next.
type lanes struct {
	mu      sync.Mutex // guards the fields below, and the lanes
	byKey   map[string]*lane
	left    map[string]string // markers of lanes that have ended, for the next of their counter
	running int               // lanes, and calls outside of one
	closed  bool
	idle    chan struct{} // closed when nothing runs any more after Close
}

// enter lets a call begin, unless the counters are closed. Each is followed by leave.
func (l *lanes) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.running++
	return true
}

func (l *lanes) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end()
}

// end is leave for who has the lock.
func (l *lanes) end() {
	l.running--
	if l.closed && l.running == 0 {
		close(l.idle)
	}
}

// maxLeft bounds the markers that are remembered. What is not remembered stays in the table until it expires.
const maxLeft = 1000

// A lane is a counter that a call is under way for.
type lane struct {
	queue  []*item
	marker string // operation of the last batch, to be forgotten with the next
}

// An item is a call in a lane.
type item struct {
	change
	ctx   context.Context //nolint:containedctx // it is that of the call
	taken bool            // by a batch; guarded by the lanes
	res   Result
	err   error
	known bool // res and err are what became of it
	done  chan struct{}
}

// share makes a change, with others if it is not alone.
func (c *Counters[T]) share(ctx context.Context, ch change) (Result, error) {
	l := &c.lanes
	if c.o.MaxBatch == 1 {
		if !l.enter() {
			return Result{}, ErrClosed
		}
		defer l.leave()
		return c.alone(ctx, ch)
	}
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return Result{}, ErrClosed
	}
	if busy, ok := l.byKey[ch.key]; ok {
		it := &item{change: ch, ctx: ctx, done: make(chan struct{})}
		busy.queue = append(busy.queue, it)
		l.mu.Unlock()
		return l.wait(ctx, busy, it)
	}
	if l.byKey == nil {
		l.byKey = map[string]*lane{}
	}
	mine := &lane{marker: l.left[ch.key]}
	delete(l.left, ch.key)
	l.byKey[ch.key] = mine
	l.running++
	l.mu.Unlock()
	defer func() {
		if l.more(ch.key, mine) {
			go c.drive(ch.key, mine)
		}
	}()
	return c.alone(ctx, ch)
}

// wait waits for the batch that takes the item.
func (l *lanes) wait(ctx context.Context, in *lane, it *item) (Result, error) {
	select {
	case <-it.done:
		return it.res, it.err
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-it.done:
		return it.res, it.err
	default:
	}
	if it.taken {
		return Result{}, &UnknownError{Err: context.Cause(ctx)}
	}
	for i, other := range in.queue {
		if other == it {
			in.queue = append(in.queue[:i], in.queue[i+1:]...)
			break
		}
	}
	return Result{}, &tx.AbortError{Err: context.Cause(ctx)}
}

// more ends a lane that nobody waits in.
func (l *lanes) more(key string, in *lane) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(in.queue) > 0 {
		return true
	}
	delete(l.byKey, key)
	if in.marker != "" && len(l.left) < maxLeft {
		if l.left == nil {
			l.left = map[string]string{}
		}
		l.left[key] = in.marker
	}
	l.end()
	return false
}

// take takes the next batch out of a lane. Whatever the value is, its amounts fit in one order if their sum does: they are
// no more than room, which is the largest value, in all.
func (l *lanes) take(in *lane, most int, room int64) []*item {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for n < min(len(in.queue), most) {
		size := max(in.queue[n].delta, negative(in.queue[n].delta))
		if size > room {
			break
		}
		room -= size
		n++
	}
	n = max(n, min(1, len(in.queue)))
	batch := in.queue[:n:n]
	in.queue = in.queue[n:]
	for _, it := range batch {
		it.taken = true
	}
	return batch
}

// drive commits batches until nobody waits in the lane. A driver that ends its goroutine ends no lane.
func (c *Counters[T]) drive(key string, in *lane) {
	ended := false
	defer func() {
		if !ended {
			go c.drive(key, in)
		}
	}()
	for {
		if batch := c.lanes.take(in, c.o.MaxBatch, c.place.largest); len(batch) > 0 {
			c.commitSafely(key, in, batch)
			c.lanes.gather(in, len(batch))
		}
		if !c.lanes.more(key, in) {
			ended = true
			return
		}
	}
}

// gather lets the callers who were just answered come again, which takes no longer than they need to do so: the first of them
// would otherwise go alone, and the rest wait for its commit.
func (l *lanes) gather(in *lane, answered int) {
	for before := -1; ; {
		runtime.Gosched()
		l.mu.Lock()
		waiting := len(in.queue)
		l.mu.Unlock()
		if waiting == before || waiting >= answered {
			return
		}
		before = waiting
	}
}

// commitSafely answers all calls of a batch, also when the driver or the observer panics or ends the goroutine, which is that of
// none of them.
func (c *Counters[T]) commitSafely(key string, in *lane, batch []*item) {
	defer func() {
		failed := recover() // nil if the goroutine ends
		for _, it := range batch {
			if !it.known {
				it.res, it.err = Result{}, &UnknownError{Err: fmt.Errorf("the driver panicked: %v", failed)}
			}
			close(it.done)
		}
	}()
	c.commit(key, in, batch)
}

// Close refuses new calls that change counters with [ErrClosed] and waits, as long as ctx allows, for those under way. The
// database stays open; calls in transactions of the caller's go on, and so do Get and Sweep. It returns the cause of the end
// of ctx.
func (c *Counters[T]) Close(ctx context.Context) error {
	l := &c.lanes
	l.mu.Lock()
	if !l.closed {
		l.closed, l.idle = true, make(chan struct{})
		if l.running == 0 {
			close(l.idle)
		}
	}
	idle := l.idle
	l.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
