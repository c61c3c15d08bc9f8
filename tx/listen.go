package tx

import (
	"context"
	"errors"
	"fmt"

	holdfast "github.com/holdfast-go/holdfast"
)

// EventPolling: whoever waits for something in the database is not woken by its notifications and looks again from time to time, as
// long as nothing else is said. Err is why. The patterns that wait tell it to their observers, once for each time that it begins.
const EventPolling holdfast.EventKind = "tx.polling"

// ErrNoListen: the adapter or the engine has no notifications. Who waits looks again from time to time.
var ErrNoListen = fmt.Errorf("tx: no notifications here: %w", errors.ErrUnsupported)

// A Listener is a [Driver] that hears the notifications of PostgreSQL. It is an optional power: without it, patterns that wait look
// again from time to time. A driver that wraps another passes it on, with [ErrNoListen] if the other has it not.
type Listener interface {
	// Listen opens a connection for notifications that is none of the pool's, so that a pool of one connection is not starved by
	// it. ctx bounds the opening alone.
	Listen(ctx context.Context) (Notifications, error)
}

// Notifications are those that arrive on a connection of their own. It is used by one goroutine at a time. After an error of any
// method, but for the end of the context of Next, it is good for nothing but Close.
type Notifications interface {
	// Listen has what is sent to channel from now on arrive. A channel is any text of 1 to 63 bytes without NUL. To listen again
	// does no harm, and shows that the server answers.
	Listen(ctx context.Context, channel string) error
	// Unlisten ends what Listen began.
	Unlisten(ctx context.Context, channel string) error
	// Next waits for a notification. The end of ctx ends the wait, and loses none.
	Next(ctx context.Context) (channel, payload string, err error)
	// Close ends the connection, without waiting for the server.
	Close() error
}

// Listen opens a connection on which the notifications of the database arrive, or returns [ErrNoListen]. It is for patterns, which
// share one in a process; the caller closes it.
func (db *DB[T]) Listen(ctx context.Context) (Notifications, error) {
	if l, ok := db.driver.(Listener); ok {
		return l.Listen(ctx)
	}
	return nil, ErrNoListen
}

// Notify sends a payload of less than 8000 bytes to all who listen on channel now, in a transaction of its own. All commits that
// notify wait for each other on the server: it is for what happens now and then. It returns [ErrNoListen] on an engine that has no
// notifications.
func (db *DB[T]) Notify(ctx context.Context, channel, payload string) error {
	if !db.Dialect().Capabilities.Notifications {
		return ErrNoListen
	}
	_, err := db.Conn().Exec(ctx, "select pg_notify($1::text, $2::text)", channel, payload)
	return err
}

// Pool returns what tells the pool of db from others: equal values are the same pool.
func (db *DB[T]) Pool() any {
	if p, ok := db.driver.(pooled); ok {
		return p.Pool()
	}
	return db.turns // which all DBs share that were made of this one
}
