package fault

import (
	"context"
	"runtime"
	"slices"
	"sync"
)

// An Injector counts the points that one process passes, and breaks those of its plan. It is safe for concurrent use.
type Injector struct {
	plan Plan
	hold func(point int) // called at each point, or nil

	mu     sync.Mutex // guards all below
	cancel context.CancelFunc
	points []point
	fired  int
	dead   bool
	stop   []func()
}

// A point is a place where something can go wrong.
type point struct {
	name  string
	modes []Mode
}

// NewInjector returns an injector for one process. A nil plan breaks nothing.
func NewInjector(plan Plan) *Injector { return &Injector{plan: plan} }

// Attach returns a context of the caller that the injector can end.
func (in *Injector) Attach(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	in.mu.Lock()
	defer in.mu.Unlock()
	in.cancel = cancel
	return ctx, cancel
}

// Crash makes everything fail that goes through the injector from now on.
func (in *Injector) Crash() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.dead = true
}

// Stop crashes the process and closes what it had open.
func (in *Injector) Stop() {
	in.Crash()
	in.mu.Lock()
	stop := in.stop
	in.stop = nil
	in.mu.Unlock()
	for _, f := range stop {
		f()
	}
}

// OnStop registers what ends the process: it is called once, by Stop.
func (in *Injector) OnStop(f func()) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.stop = append(in.stop, f)
}

func (in *Injector) end() {
	in.mu.Lock()
	cancel := in.cancel
	in.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// passed returns the points so far, and how many faults of the plan have happened.
func (in *Injector) passed() ([]point, int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.Clone(in.points), in.fired
}

// arrive counts a point. It returns the mode in which it is to break, or 0.
func (in *Injector) arrive(name string, modes []Mode) (f Fault, dead bool) {
	in.mu.Lock()
	if in.dead {
		in.mu.Unlock()
		return Fault{}, true
	}
	in.points = append(in.points, point{name, modes})
	number := len(in.points)
	i := slices.IndexFunc(in.plan, func(f Fault) bool { return f.Point == number && slices.Contains(modes, f.Mode) })
	if i >= 0 {
		f = in.plan[i]
		in.fired++
	}
	in.mu.Unlock()
	if in.hold != nil {
		in.hold(number)
	}
	return f, false
}

// do runs act, or what is to go wrong in its place. cut breaks the connection.
func (in *Injector) do(name string, modes []Mode, cut func(), act func() error) error {
	f, dead := in.arrive(name, modes)
	if dead {
		cut()
		return ErrCrashed
	}
	switch f.Mode {
	case ErrorBefore:
		return ErrRefused
	case CutBefore:
		cut()
		return ErrUnsent
	case CrashBefore:
		in.Crash()
		cut()
		return ErrCrashed
	case CancelBefore:
		in.end()
	case Panic:
		panic(Injected{f})
	case Goexit:
		runtime.Goexit()
	}
	if err := act(); err != nil {
		return err
	}
	switch f.Mode {
	case ErrorAfter:
		return ErrRefused
	case CutAfter:
		cut()
		return ErrLost
	case CancelAfter:
		in.end()
	case CrashAfter:
		in.Crash()
		cut()
		return ErrCrashed
	}
	return nil
}

// text is a statement as the name of a point.
func text(verb, query string) string {
	const most = 60
	if len(query) > most {
		query = query[:most] + "…"
	}
	return verb + " " + query
}
