package rediscounter

import (
	"errors"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"

	holdfast "github.com/holdfast-go/holdfast"
)

// refusals begin the replies by which a server refuses a script as a whole or its first write.
var refusals = []string{
	"NOSCRIPT", "READONLY", "OOM", "LOADING", "MISCONF", "NOREPLICAS", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY",
	"NOAUTH", "max number of clients reached",
}

// reason names what a reply of the scripts means. Redis has no codes for two of them.
func reason(err error) error {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return err
	}
	switch text := reply.Error(); {
	case strings.Contains(text, "WRONGTYPE"):
		return ErrWrongType
	case strings.Contains(text, "would overflow"):
		return ErrOverflow
	case strings.Contains(text, "not an integer"):
		return ErrNotInteger
	}
	return err
}

// outcome tells what an error of a script proves. One of ours means that the script found no entry of the operation, so no
// attempt before had an effect. Any other is that of the last attempt, and go-redis does not say how many there were: its
// hooks go around all of them. So it proves something only of a client that makes one.
func (c *Counters) outcome(err error) holdfast.Outcome {
	for _, ours := range []error{ErrWrongType, ErrOverflow, ErrNotInteger} {
		if errors.Is(err, ours) {
			return holdfast.NotApplied
		}
	}
	if client, ok := c.client.(*redis.Client); ok && client.Options().MaxRetries == 0 && (unsent(err) || refused(err)) {
		return holdfast.NotApplied
	}
	return holdfast.Unknown
}

// unsent reports whether there was no connection to send anything on.
func unsent(err error) bool {
	var dial *net.OpError
	return errors.As(err, &dial) && dial.Op == "dial" ||
		errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted) || errors.Is(err, redis.ErrClosed)
}

func refused(err error) bool {
	for _, prefix := range refusals {
		if redis.HasErrorPrefix(err, prefix) {
			return true
		}
	}
	return false
}
