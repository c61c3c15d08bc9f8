package fault

import (
	"sync"
	"sync/atomic"
	"time"
)

// How long a process is held: as long as others come by points, since they may be slow, and not for ever, since they may try
// again and again to get a lock of its own.
const (
	patience = 50 * time.Millisecond
	longest  = 5 // times patience
)

// An order decides when processes go on.
type order interface {
	start(process int)
	at(process, point int)
	returned(process int)
}

// A signal is sent once.
type signal struct {
	once sync.Once
	c    chan struct{}
}

func newSignal() *signal { return &signal{c: make(chan struct{})} }

func (s *signal) send() { s.once.Do(func() { close(s.c) }) }

// await waits for the signal, or until patience is lost with what progress counts.
func (s *signal) await(progress *atomic.Int64) {
	timer := time.NewTicker(patience)
	defer timer.Stop()
	last := progress.Load()
	for range longest {
		select {
		case <-s.c:
			return
		case <-timer.C:
			now := progress.Load()
			if now == last {
				return
			}
			last = now
		}
	}
}

// A gate holds each process before a point until all have come there or have returned.
type gate struct {
	point  int
	open   *signal
	passed atomic.Int64

	mu      sync.Mutex // guards missing
	missing map[int]bool
}

func newGate(point int) *gate {
	g := &gate{point: point, open: newSignal(), missing: map[int]bool{}}
	for i := range hosts {
		g.missing[i] = true
	}
	return g
}

func (g *gate) start(int) {}

func (g *gate) at(process, point int) {
	g.passed.Add(1)
	if point == g.point {
		g.returned(process)
		g.open.await(&g.passed)
	}
}

func (g *gate) returned(process int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if delete(g.missing, process); len(g.missing) == 0 {
		g.open.send()
	}
}

// A lag holds the first process before a point until the others, which begin then, have returned.
type lag struct {
	point   int
	arrived *signal
	others  *signal
	passed  atomic.Int64

	mu      sync.Mutex // guards running
	running int
}

func newLag(point int) *lag {
	return &lag{point: point, arrived: newSignal(), others: newSignal(), running: hosts - 1}
}

func (l *lag) start(process int) {
	if process != 0 {
		<-l.arrived.c
	}
}

func (l *lag) at(process, point int) {
	l.passed.Add(1)
	if process == 0 && point == l.point {
		l.arrived.send()
		l.others.await(&l.passed)
	}
}

func (l *lag) returned(process int) {
	if process == 0 {
		l.arrived.send() // it did not come by the point
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running--; l.running == 0 {
		l.others.send()
	}
}
