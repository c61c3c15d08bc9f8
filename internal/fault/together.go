package fault

import (
	"context"
	"fmt"
	"sync"
)

const (
	crowd = 8 // calls at once in one process
	hosts = 3 // processes of which all, or one, are held at a point
)

// Twice makes a call two times in one process and once in another.
func Twice(t TB, s Scenario) {
	t.Helper()
	r := begin(t, s)
	if r == nil {
		return
	}
	defer r.end()
	in, key := NewInjector(nil), r.key()
	defer in.Stop()
	process, err := s.Start(r.ctx, in)
	if r.fails("start: ", err); err != nil {
		return
	}
	got := invoke(r.ctx, process.Call, key)
	for _, err := range []error{got.strange(), got.err} {
		if r.fails("the first call: ", err); err != nil {
			return
		}
	}
	if err := r.count(key, "after the first call", 1, 1); err != nil {
		r.fails("", because(err, "the call was answered, and Effects finds nothing of its key: Call has to use the key, and Effects to count by it",
			func(n int) bool { return n == 0 }))
		return
	}
	r.fails("", r.settle(key, got.answer))
}

// Together makes calls of one key at the same time: some in one process as they come; then in several processes that wait
// for each other before each point, so that they have all looked before the first of them acts; then with one that is held
// before each point until the others have returned, so that they see what it has left half done.
func Together(t TB, s Scenario) {
	t.Helper()
	r := begin(t, s)
	if r == nil {
		return
	}
	defer r.end()
	points, _, err := r.breakAt(nil)
	if r.fails("alone: ", err); err != nil {
		return
	}
	if r.fails(fmt.Sprintf("%d calls in one process: ", crowd), r.crowd()) {
		return
	}
	for i, p := range points {
		if len(p.modes) == 1 { // within an operation
			continue
		}
		where := fmt.Sprintf("at point %d (%s): ", i+1, p.name)
		if r.fails(fmt.Sprintf("%d processes, all held ", hosts)+where, r.held(newGate(i+1))) {
			return
		}
		if r.fails(fmt.Sprintf("%d processes, one held ", hosts)+where, r.held(newLag(i+1))) {
			return
		}
	}
	t.Logf("prove: %d calls at once, and %d processes held at each of %d points", crowd, hosts, len(points))
}

func (r *run) crowd() error {
	in := NewInjector(nil)
	defer in.Stop()
	process, err := r.Start(r.ctx, in)
	if err != nil {
		return err
	}
	calls := make([]Call, crowd)
	for i := range calls {
		calls[i] = process.Call
	}
	return r.race(calls)
}

// held runs processes whose points an order decides about.
func (r *run) held(o order) error {
	var calls []Call
	for i := range hosts {
		in := NewInjector(nil)
		in.hold = func(number int) { o.at(i, number) }
		defer in.Stop()
		process, err := r.Start(r.ctx, in)
		if err != nil {
			return err
		}
		calls = append(calls, func(ctx context.Context, key string) (any, error) {
			o.start(i)
			defer o.returned(i)
			return process.Call(ctx, key)
		})
	}
	return r.race(calls)
}

// race makes all calls at once. A call may be refused. One that is answered has its effect, the only one, and all are
// answered alike.
func (r *run) race(calls []Call) error {
	key, replies, errs := r.key(), make([]reply, len(calls)), make([]error, len(calls))
	var all sync.WaitGroup
	for i, call := range calls {
		all.Go(func() {
			replies[i] = invoke(r.ctx, call, key)
			if errs[i] = replies[i].strange(); errs[i] == nil && replies[i].ok() {
				errs[i] = r.count(key, "as soon as a call was answered", 1, 1)
			}
		})
	}
	all.Wait()
	var answers []any
	for i, got := range replies {
		if errs[i] != nil {
			return errs[i]
		}
		if got.ok() {
			answers = append(answers, got.answer)
		}
	}
	if err := r.count(key, fmt.Sprintf("after %d calls at once", len(calls)), 0, 1); err != nil {
		return err
	}
	return r.settle(key, answers...)
}
