package redisscript

import (
	"context"
	"time"
)

// idle is how long a worker waits for its next task before it ends.
const idle = time.Second

// Ask makes a request with the client of r, and waits for its end until the deadline of ctx. Where it would wait for longer, a worker does, and what the
// request comes to later is nobody's.
func Ask[T any](ctx context.Context, r *Runner, request func() (T, error)) (none T, err error) {
	if err := context.Cause(ctx); err != nil {
		return none, err
	}
	if r.inTime(ctx) {
		return request()
	}
	type end struct {
		value T
		err   error
	}
	ended := make(chan end, 1)
	task := func() {
		value, err := request()
		ended <- end{value, err}
	}
	select {
	case r.tasks <- task:
	default:
		go r.work(task)
	}
	select {
	case e := <-ended:
		return e.value, e.err
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
}

// inTime reports whether the client by itself stops to wait in time. After a cancellation that is when its own patience ends.
func (r *Runner) inTime(ctx context.Context) bool {
	if r.heeds || ctx.Done() == nil {
		return true
	}
	deadline, ok := ctx.Deadline()
	return r.patience > 0 && (!ok || time.Until(deadline) >= r.patience)
}

// work does tasks one after the other. A goroutine for each would have to grow its stack each time.
func (r *Runner) work(task func()) {
	timer := time.NewTimer(idle)
	defer timer.Stop()
	for {
		task()
		timer.Reset(idle)
		select {
		case task = <-r.tasks:
		case <-timer.C:
			return
		}
	}
}
