package singleflight

import (
	"context"
	"runtime/debug"
)

// A result is what a function came to.
type result[V any] struct {
	value V
	err   error
}

// run calls fn and lands the flight, whatever fn does.
func (g *Group[K, V]) run(key K, f *flightOf[V], fn func(ctx context.Context) (V, error)) (value V, err error) {
	returned := false
	defer func() {
		if !returned {
			// Goexit goes on after this: it ends the goroutine that fn ran on, and nothing can stop it.
			err = ended(recover())
			observe(&f.Lead, &g.o, EventPanicked, key, 0, err)
		}
		if g.settle != nil {
			g.settleAndLand(key, f, &value, &err)
			return
		}
		g.land(key, f, value, err)
	}()
	value, err = fn(&f.Lead)
	returned = true
	return value, err
}

// settleAndLand lands the flight whatever settle does: what it calls is the user's, too. It is apart from run, since a group
// without it has no need of so deep a stack, which a new goroutine would have to grow for.
func (g *Group[K, V]) settleAndLand(key K, f *flightOf[V], value *V, err *error) {
	settled := false
	defer func() {
		if !settled {
			*err = ended(recover())
		}
		g.land(key, f, *value, *err)
	}()
	g.settle(key, f, result[V]{*value, *err})
	settled = true
}

func (g *Group[K, V]) land(key K, f *flightOf[V], value V, err error) {
	r := result[V]{value, err}
	g.flights.Land(key, f, func() (result[V], bool) { return r, true })
	f.Lead.end(context.Canceled)
}

// ended is the error of a function that did not return. Since Go 1.21 a panic has a value, so none means Goexit.
func ended(panicked any) error {
	if panicked == nil {
		return ErrGoexit
	}
	return &PanicError{Value: panicked, Stack: debug.Stack()}
}
