package wake

import (
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/jitter"
)

// A rest is the time after listening, in which there is no goroutine: with the connection, for who comes soon, or without one, before
// it is tried again.
type rest struct {
	conn  Conn // nil after a failure
	timer *time.Timer
}

// pause ends the listening, with the error that it came to. It reports false if somebody has come to wait.
func (h *hub) pause(conn Conn, err error) (ended bool) {
	if err != nil && conn != nil {
		_ = conn.Close()
	}
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		h.tell(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.interrupt = nil
	switch {
	case err == nil && h.waiting > 0:
		h.changed = true
		return false
	case err == nil:
		h.settle(conn, normal.linger)
	case errors.Is(err, errors.ErrUnsupported):
		h.open = nil
		h.exit()
	case errors.Is(err, errDeaf):
		h.settle(nil, about(normal.deaf))
	default:
		h.failures++
		h.settle(nil, jitter.Full(normal.retry[0], normal.retry[1], h.failures))
	}
	h.listening = false
	return true
}

// settle begins a rest. The mutex is held.
func (h *hub) settle(conn Conn, d time.Duration) {
	r := &rest{conn: conn}
	r.timer = time.AfterFunc(d, func() { h.over(r) })
	h.rest = r
}

// over ends a rest whose time has come.
func (h *hub) over(r *rest) {
	h.mu.Lock()
	if h.rest != r {
		h.mu.Unlock()
		return
	}
	h.rest = nil
	if r.conn == nil && h.waiting > 0 {
		h.listening, h.changed = true, true
		h.mu.Unlock()
		h.listen(nil)
		return
	}
	h.mu.Unlock()
	if r.conn != nil {
		_ = r.conn.Close()
	}
	h.exit()
}

// awake ends a rest for one who waits. The mutex is held.
func (h *hub) awake() (conn Conn) {
	r := h.rest
	if r == nil {
		return nil
	}
	h.rest = nil
	r.timer.Stop()
	return r.conn
}
