package redislease

import (
	"context"
	"time"
)

// idle is how long a worker waits for its next task before it ends.
const idle = time.Second

// A task is a request, for a worker to wait for its reply.
type task struct {
	request func() ([]any, error)
	replies chan<- reply
}

type reply struct {
	values []any
	err    error
}

// ask makes a request, and waits for the reply until the deadline of ctx, which go-redis by default does not heed while it reads.
// Where it would wait for longer, a worker does.
func (s *Store) ask(ctx context.Context, request func() ([]any, error)) ([]any, error) {
	if s.err != nil {
		return nil, s.err
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if s.inTime(ctx) {
		return request()
	}
	replies := make(chan reply, 1)
	t := task{request, replies}
	select {
	case s.tasks <- t:
	default:
		go s.work(t)
	}
	select {
	case r := <-replies:
		return r.values, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// inTime reports whether the client by itself stops to wait in time. After a cancellation that is when its own patience ends.
func (s *Store) inTime(ctx context.Context) bool {
	if s.heeds || ctx.Done() == nil {
		return true
	}
	deadline, ok := ctx.Deadline()
	return s.patience > 0 && (!ok || time.Until(deadline) >= s.patience)
}

// work does tasks one after the other. A goroutine for each would have to grow its stack each time.
func (s *Store) work(t task) {
	timer := time.NewTimer(idle)
	defer timer.Stop()
	for {
		values, err := t.request()
		t.replies <- reply{values, err}
		timer.Reset(idle)
		select {
		case t = <-s.tasks:
		case <-timer.C:
			return
		}
	}
}
