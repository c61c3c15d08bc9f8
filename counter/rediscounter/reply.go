package rediscounter

import (
	"context"
	"fmt"
	"strconv"

	holdfast "github.com/holdfast-go/holdfast"
)

// Events. Name is [Options].Name, Key the beginning of a digest of the counter's name.
const (
	// EventReplayed: an operation had been done before, and got its first result.
	EventReplayed holdfast.EventKind = "rediscounter.replayed"
	// EventInsufficient: there was less than was to be taken. Err has how much there is.
	EventInsufficient holdfast.EventKind = "rediscounter.insufficient"
	// EventExpiryRepaired: a counter had lost its expiry, and has one again.
	EventExpiryRepaired holdfast.EventKind = "rediscounter.expiry_repaired"
	// EventUnknown: nobody knows whether the change happened. Err is why.
	EventUnknown holdfast.EventKind = "rediscounter.unknown"
)

// read makes the result of what a script replied.
func (c *Counters) read(ctx context.Context, op, name string, reply []any) (int64, error) {
	if len(reply) != 3 {
		return 0, c.unknown(ctx, op, name, reply)
	}
	status, _ := reply[0].(string)
	text, _ := reply[1].(string)
	value, ok := parse(text)
	switch {
	case status == "mismatch":
		return 0, refuse(op, ErrMismatch)
	case status == "insufficient" && !ok:
		return 0, refuse(op, ErrNotInteger)
	case status == "insufficient":
		err := &InsufficientError{Have: value}
		c.observe(ctx, EventInsufficient, name, err)
		return 0, err
	case !ok || status != "applied" && status != "replayed":
		return 0, c.unknown(ctx, op, name, reply)
	}
	if status == "replayed" {
		c.observe(ctx, EventReplayed, name, nil)
	}
	if reply[2] == int64(1) {
		c.observe(ctx, EventExpiryRepaired, name, nil)
	}
	return value, nil
}

// parse reads an integer the way Redis does, which takes no plus sign and no leading zeros.
func parse(text string) (int64, bool) {
	value, err := strconv.ParseInt(text, 10, 64)
	return value, err == nil && strconv.FormatInt(value, 10) == text
}

func (c *Counters) unknown(ctx context.Context, op, name string, reply []any) error {
	return c.failed(ctx, op, name, fmt.Errorf("the server replied %q, which is no reply of the script", reply))
}

// failed makes the error of a script that was not answered, or with an error.
func (c *Counters) failed(ctx context.Context, op, name string, err error) error {
	err = reason(err)
	failure := &Error{Op: op, err: err, outcome: c.outcome(err)}
	if failure.outcome == holdfast.Unknown {
		c.observe(ctx, EventUnknown, name, failure)
	}
	return failure
}

func (c *Counters) observe(ctx context.Context, kind holdfast.EventKind, name string, err error) {
	holdfast.Observe(ctx, c.o.Observer, holdfast.Event{Kind: kind, Name: c.o.Name, Key: digest(name)[:16], Err: err})
}
