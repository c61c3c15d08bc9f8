package wake

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// times are how long things may take.
type times struct {
	dial      time.Duration // to open a connection
	answer    time.Duration // of the server, to a request of the listener
	keepAlive time.Duration // between two such requests, give or take a tenth
	settle    time.Duration // from the last who leaves to the end of listening
	linger    time.Duration // from there to the end of the connection
	retry     [2]time.Duration
	deaf      time.Duration // before a connection is tried again on which nothing arrived
}

var normal = times{
	dial: 10 * time.Second, answer: 3 * time.Second, keepAlive: 15 * time.Second,
	settle: 100 * time.Millisecond, linger: 3 * time.Second,
	retry: [2]time.Duration{50 * time.Millisecond, 30 * time.Second}, deaf: 5 * time.Minute,
}

// begin has a goroutine listen, unless one does or is to wait with that. The mutex is held.
func (h *hub) begin() {
	if h.open == nil || h.listening || h.rest != nil && h.rest.conn == nil {
		return
	}
	h.listening = true
	conn := h.awake()
	if conn == nil {
		h.use()
	}
	go h.listen(conn)
}

// listen is the goroutine. It ends when nobody waits, and when the connection does.
func (h *hub) listen(conn Conn) {
	var err error
	if conn == nil {
		conn, err = h.dial()
	}
	for {
		if err == nil {
			err = h.serve(conn)
		}
		if h.pause(conn, err) {
			return
		}
	}
}

func (h *hub) dial() (Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), normal.dial)
	defer cancel()
	return h.open(ctx)
}

// serve listens until nobody waits any more, and returns nil then and the connection is at rest.
func (h *hub) serve(conn Conn) error {
	defer h.prove(false)
	on, due := map[string]bool{}, time.Now()
	var left time.Time // when the last had gone
	for {
		wanted, changed := h.wants()
		if changed {
			left = time.Time{}
			if len(wanted) == 0 {
				left = time.Now().Add(normal.settle)
			}
			if err := h.tune(conn, on, wanted); err != nil {
				return err
			}
		}
		now, until := time.Now(), due
		switch {
		case !left.IsZero() && !now.Before(left):
			return h.hush(conn, on)
		case !left.IsZero():
			until = left
		case !now.Before(due):
			if err := errors.Join(h.trim(conn, on), h.probe(conn)); err != nil {
				return err
			}
			due = time.Now().Add(about(normal.keepAlive))
			continue
		}
		if err := h.next(conn, until); err != nil {
			return err
		}
	}
}

// about returns d, give or take a tenth.
func about(d time.Duration) time.Duration {
	return d - d/10 + time.Duration(rand.Int64N(int64(d/5)+1))
}

// wants returns for which channels somebody waits, if that has changed since.
func (h *hub) wants() (channels map[string]bool, changed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if changed = h.changed; !changed {
		return nil, false
	}
	h.changed = false
	channels = make(map[string]bool, len(h.channels))
	for name := range h.channels {
		channels[name] = true
	}
	return channels, true
}

// tune listens to what is wanted. Who waited before that is woken, once, since what came until now is lost.
func (h *hub) tune(conn Conn, on, wanted map[string]bool) error {
	for name := range wanted {
		if on[name] {
			continue
		}
		if err := ask(conn.Listen, name); err != nil {
			return err
		}
		on[name] = true
		h.wakeAll(name)
	}
	return nil
}

// trim ends listening to what nobody wants any more. It comes now and then: the next who wants it comes soon, as a rule.
func (h *hub) trim(conn Conn, on map[string]bool) error {
	for name := range on {
		h.mu.Lock()
		wanted := h.channels[name] != nil
		h.mu.Unlock()
		if wanted {
			continue
		}
		if err := ask(conn.Unlisten, name); err != nil {
			return err
		}
		delete(on, name)
	}
	return nil
}

// ask makes a request that the server answers soon.
func ask(request func(ctx context.Context, channel string) error, channel string) error {
	ctx, cancel := context.WithTimeout(context.Background(), normal.answer)
	defer cancel()
	return request(ctx, channel)
}

// next waits for one notification and wakes its key, until then or until something has changed.
func (h *hub) next(conn Conn, until time.Time) error {
	ctx, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	h.mu.Lock()
	h.interrupt = cancel
	if h.changed {
		cancel()
	}
	h.mu.Unlock()
	name, key, err := conn.Next(ctx)
	switch {
	case err == nil:
		h.heard(name, key)
	case ctx.Err() == nil:
		return err
	}
	return nil
}

// hush ends the listening, so that the server has nothing to send to a connection that nobody reads.
func (h *hub) hush(conn Conn, on map[string]bool) error {
	for name := range on {
		if err := ask(conn.Unlisten, name); err != nil {
			return err
		}
	}
	return ask(conn.Unlisten, h.echo)
}

// errDeaf: see [hub.probe].
var errDeaf = errors.New("wake: a notification that was sent did not arrive: a pooler in transaction mode is between, as it seems")
