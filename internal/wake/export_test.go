package wake

import "time"

// The tests do not wait as long as users do.
func init() {
	normal.keepAlive, normal.answer = 300*time.Millisecond, time.Second
	normal.retry[1] = 200 * time.Millisecond
}

// Idle is how long something is left after the last has gone, and Deaf how long a connection is not tried on which nothing arrived.
func Idle() time.Duration      { return normal.settle + normal.linger }
func Deaf() time.Duration      { return normal.deaf }
func KeepAlive() time.Duration { return normal.keepAlive }

// ErrDeaf is told of a connection on which nothing arrives.
var ErrDeaf = errDeaf

// Proved reports whether notifications are known to arrive for the pool of the line.
func (l *Line) Proved() bool {
	h := l.enter()
	defer h.exit()
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.proved
}

// Gone reports whether nothing is kept for the pool of the line.
func (l *Line) Gone() bool {
	hubs.RLock()
	defer hubs.RUnlock()
	return hubs.of[l.pool] == nil
}
