package fault

import (
	"sync"
	"time"
)

// patience is how long a process is held for others that may be waiting for a lock of its own.
const patience = 50 * time.Millisecond

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

// await waits for the signal, or as long as patience lasts.
func (s *signal) await() {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-s.c:
	case <-timer.C:
	}
}

// A gate holds each process before a point until all have come there or have returned.
type gate struct {
	point int
	open  *signal

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
	if point == g.point {
		g.returned(process)
		g.open.await()
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
	if process == 0 && point == l.point {
		l.arrived.send()
		l.others.await()
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
