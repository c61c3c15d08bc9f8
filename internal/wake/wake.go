// Package wake lets those who wait for something in a database be woken when it happens: by this process at once, and by others
// through the notifications of the database. However many wait, for however many things, one connection of a process listens for
// each pool, and none does a moment after the last has gone.
//
// A wake-up is a hint. Who is woken looks again, and so does, after a pause, who is not. What goes wrong here costs time alone:
// nobody who waits is told of it.
package wake

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
)

// A Conn is a connection on which notifications arrive: see tx.Notifications.
type Conn interface {
	Listen(ctx context.Context, channel string) error
	Unlisten(ctx context.Context, channel string) error
	Next(ctx context.Context) (channel, payload string, err error)
	Close() error
}

// A DB is what a line needs of a tx.DB. Listen returns an error that matches errors.ErrUnsupported if there are no notifications.
type DB[C Conn] interface {
	Pool() any
	Listen(ctx context.Context) (C, error)
	Notify(ctx context.Context, channel, payload string) error
}

// A Line is how those of one pattern wait, each for its key. Lines of one pool and channel are one: what wakes a key of one wakes it
// in all. It holds nothing while nobody waits, and is safe for concurrent use.
type Line struct {
	pool    any
	channel string
	open    func(ctx context.Context) (Conn, error) // nil if only this process wakes
	notify  func(ctx context.Context, channel, payload string) error
	told    func(err error)
	mute    atomic.Bool // there are no notifications, as open has found out
}

// New returns a line on which the payloads of channel wake their keys. told may be nil. It is called, on a goroutine of its own, when
// notifications cease to arrive while somebody waits, once until they do arrive again.
func New[C Conn](db DB[C], channel string, told func(err error)) *Line {
	l := &Line{pool: db.Pool(), channel: channel, told: told, notify: db.Notify}
	l.open = func(ctx context.Context) (Conn, error) {
		conn, err := db.Listen(ctx)
		if err != nil {
			l.mute.Store(errors.Is(err, errors.ErrUnsupported))
			return nil, err // and no Conn that holds a nil
		}
		return conn, nil
	}
	return l
}

// Alone returns a line of its own on which only this process wakes.
func Alone() *Line {
	l := &Line{}
	l.pool = l
	return l
}

// Wake wakes those of this process who wait for key.
func (l *Line) Wake(key string) {
	hubs.RLock()
	h := hubs.of[l.pool]
	hubs.RUnlock()
	if h != nil { // somebody waits, for this or for another
		h.heard(l.channel, key)
	}
}

// hubs are those of the pools for which somebody waits, or did a moment ago.
var hubs = struct {
	sync.RWMutex // guards of, and the uses of each hub
	of           map[any]*hub
}{of: map[any]*hub{}}

// enter returns the hub of the line's pool, which it uses from now on.
func (l *Line) enter() *hub {
	hubs.Lock()
	defer hubs.Unlock()
	h := hubs.of[l.pool]
	if h == nil {
		h = &hub{pool: l.pool, notify: l.notify, echo: echoChannel(), channels: map[string]*channel{}}
		if !l.mute.Load() {
			h.open = l.open
		}
		hubs.of[l.pool] = h
	}
	h.uses++
	return h
}

// use keeps the hub, for what begins within another use of it.
func (h *hub) use() {
	hubs.Lock()
	defer hubs.Unlock()
	h.uses++
}

// exit ends a use. The last takes the hub with it.
func (h *hub) exit() {
	hubs.Lock()
	defer hubs.Unlock()
	if h.uses--; h.uses == 0 {
		delete(hubs.of, h.pool)
	}
}
