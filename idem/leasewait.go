package idem

import (
	"context"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/jitter"
	"github.com/holdfast-go/holdfast/internal/wake"
	"github.com/holdfast-go/holdfast/tx"
)

// A Waker is a [Store] from which a process hears of the keys that are announced, once their executions have ended. It is an optional
// power, and a hint: without it, and where it fails, those who wait look again from time to time, with backoff up to a second.
type Waker interface {
	Store
	// Pool returns what tells the database from others: stores with equal values share one connection of a process.
	Pool() any
	// Listen opens the connection: see [tx.Listener].
	Listen(ctx context.Context) (tx.Notifications, error)
	// Channel is where the ID of an announced key arrives, as text, after Complete and Release, and perhaps Park.
	Channel() string
	// Notify sends a payload to a channel. It is used now and then to find out whether what is sent arrives.
	Notify(ctx context.Context, channel, payload string) error
}

// How long a duplicate of another process pauses before it looks again, unless it is woken.
const (
	shortestPoll = 5 * time.Millisecond
	longestPoll  = time.Second
)

// newLine returns that on which the IDs of keys arrive whose executions have ended.
func (l *leased) newLine() *wake.Line {
	if s, ok := l.store.(Waker); ok {
		return wake.New(s, s.Channel(), func(err error) {
			holdfast.Observe(context.Background(), l.o.Observer, holdfast.Event{Kind: tx.EventPolling, Err: err})
		})
	}
	return wake.Alone()
}

// A vigil is the wait of one call for the execution of another process: one for each key, since the other calls of this process wait
// for this one. The zero value has not begun.
type vigil struct {
	*wake.Waiter

	announced bool // since it was woken last
	refused   bool // the last announcement
}

// leave ends the wait. Its execution, if it comes to that, may be long, and waits for nobody.
func (v *vigil) leave() {
	if v.Waiter != nil {
		v.Leave()
		v.Waiter = nil
	}
}

// pauseLeased waits before a busy key is looked at again, or returns the error to give up with.
func (l *leased) pauseLeased(ctx context.Context, c *call, v *vigil, try int) error {
	left := l.patience(c)
	if left <= 0 {
		return l.refuse(ctx, c, &InFlightError{RetryAfter: max(c.row.left, retryAfter/10)})
	}
	if v.Waiter == nil {
		v.Waiter = l.line.Join(c.digest.String())
	}
	if l.announce(ctx, c, v, left) {
		return nil
	}
	pause := jitter.Full(shortestPoll, longestPoll, try)
	if v.announced {
		pause = v.Pause(shortestPoll, longestPoll)
	}
	if c.row.left > 0 {
		pause = min(pause, c.row.left+jitter.Full(shortestPoll, 2*shortestPoll, 2)) // then it can be taken
	}
	woken, err := v.Await(ctx, min(left, pause))
	if woken {
		v.announced = false
	}
	return err
}

// announce tells the store that somebody waits, where that is of use. It reports whether to look again at once: the execution may
// have ended before the store was told.
func (l *leased) announce(ctx context.Context, c *call, v *vigil, left time.Duration) (again bool) {
	if v.announced || !v.Hears() {
		return false
	}
	if v.refused {
		v.refused = false // and it was looked at again: not everything that keeps a key can be announced to
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	open, err := l.store.Announce(ctx, c.digest)
	v.announced, v.refused = open && err == nil, !open && err == nil
	return v.refused
}
