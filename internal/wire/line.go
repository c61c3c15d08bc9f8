package wire

import (
	"net"
	"time"
)

// A line delivers chunks in order, each after the delay. Chunks are under way together, as in a network: the delay does
// not bound how many pass in a second.
type line struct {
	to     net.Conn
	delay  time.Duration
	closed <-chan struct{}
	chunks chan parcel
	ended  chan struct{}

	late time.Duration // by how much more the next chunk is late
	slow bool          // the next chunk goes byte by byte
}

type parcel struct {
	chunk []byte
	due   time.Time
}

func newLine(to net.Conn, delay time.Duration, closed <-chan struct{}) *line {
	l := &line{to: to, delay: delay, closed: closed}
	if delay > 0 {
		l.chunks, l.ended = make(chan parcel, 1024), make(chan struct{})
		go l.deliver()
	}
	return l
}

// send takes over chunk. It reports whether the line still works.
func (l *line) send(chunk []byte) bool {
	if len(chunk) == 0 {
		return true
	}
	if l.late > 0 && !l.wait() {
		return false
	}
	if l.slow {
		l.slow = false
		for i := range chunk {
			if !l.send(chunk[i:i+1:i+1]) || !l.pause(trickled) {
				return false
			}
		}
		return true
	}
	if l.delay <= 0 {
		_, err := l.to.Write(chunk)
		return err == nil
	}
	select {
	case l.chunks <- parcel{chunk, time.Now().Add(l.delay)}:
		return true
	case <-l.ended:
		return false
	case <-l.closed:
		return false
	}
}

// trickled is the time between two bytes that trickle: long enough for the reader to see them one by one.
const trickled = 20 * time.Microsecond

// wait is for what is late. What comes after it is late as well.
func (l *line) wait() bool {
	d := l.late
	l.late = 0
	return l.pause(d)
}

func (l *line) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.closed:
		return false
	}
}

func (l *line) deliver() {
	defer close(l.ended)
	clock, err := newAlarm()
	if err != nil {
		return
	}
	defer clock.close()
	for c := range l.chunks {
		if err := clock.until(c.due); err != nil {
			return
		}
		if _, err := l.to.Write(c.chunk); err != nil {
			return
		}
	}
}

// close delivers what is under way.
func (l *line) close() {
	if l.delay > 0 {
		close(l.chunks)
		<-l.ended
	}
}
