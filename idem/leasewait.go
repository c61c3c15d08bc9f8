package idem

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/jitter"
)

// longestPoll is how long a duplicate of another process pauses at most before it looks again.
const longestPoll = time.Second

// pauseLeased waits before a busy key is looked at again, or returns the error to give up with.
func (l *leased) pauseLeased(ctx context.Context, c *call, try int) error {
	left := l.patience(c)
	if left <= 0 {
		return l.refuse(ctx, c, &InFlightError{RetryAfter: max(c.row.left, retryAfter/10)})
	}
	return sleep(ctx, min(left, jitter.Full(5*time.Millisecond, longestPoll, try)))
}
