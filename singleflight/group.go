package singleflight

import (
	"context"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/flight"
)

// A Group lets concurrent calls of one key share one call of a function. The zero value is ready to use. It is safe for
// concurrent use, and must not be copied after its first use.
type Group[K comparable, V any] struct {
	o       Options
	flights flight.Group[K, lead, result[V]]
	// settle, if there is one, gets what a flight came to while calls still join it.
	settle func(key K, f *flightOf[V], r result[V])
}

// Options set up a [Group]. The zero value is ready to use.
type Options struct {
	// Name is the Name of events. Default: "singleflight".
	Name string
	// Observer is told of events. Default: silent.
	Observer holdfast.Observer
}

type flightOf[V any] = flight.Flight[lead, result[V]]

// New returns a group. Nil options work.
func New[K comparable, V any](o *Options) *Group[K, V] {
	g := &Group[K, V]{}
	if o != nil {
		g.o = *o
	}
	return g
}

// Do returns what fn comes to, or what the fn of another call with the same key comes to that is under way.
//
// Each caller waits on its own context and gets its cause when it ends. The context of fn ends when the last caller has left: use
// it, not one from outside. It has the values of the first caller's context, such as the correlation ID and the trace, and so
// must not decide by them what only that caller may see. A transaction of package tx is not among them: others are not in it,
// and what it has not committed is not for them. If the context of the first caller cannot end, fn runs on the caller's own
// goroutine, and the others wait.
//
// It returns fn's error as it is, to each caller the same; a [*PanicError] if fn panicked; [ErrGoexit]; [ErrClosed]; [ErrNested]
// if it is called within fn, for the same key. The callers share the value: they must not change what it points to.
func (g *Group[K, V]) Do(ctx context.Context, key K, fn func(ctx context.Context) (V, error)) (V, error) {
	if ctx.Err() != nil {
		var none V
		return none, context.Cause(ctx)
	}
	f, leads := g.flights.Join(key, func() lead { return begin(ctx) })
	switch {
	case f == nil:
		var none V
		return none, ErrClosed
	case !leads && f.Lead.around(ctx):
		g.leave(ctx, key, f, ErrNested)
		var none V
		return none, ErrNested
	case !leads:
		return g.share(ctx, key, f)
	case ctx.Done() == nil:
		return g.run(key, f, fn)
	}
	landed := f.Landed() // before it flies, so that it knows of one who waits
	go g.run(key, f, fn) //nolint:errcheck // the flight keeps it
	return g.wait(ctx, key, f, landed)
}

// Invalidate tells that what the running call of key comes to is out of date: callers from here on begin a call of their own.
// Those who wait already get the old result. Call it after the change is committed, not before.
func (g *Group[K, V]) Invalidate(key K) { g.flights.Forget(key) }

// InvalidateAll is [Group.Invalidate] for all keys.
func (g *Group[K, V]) InvalidateAll() { g.flights.ForgetAll() }

// share waits for the flight of another caller.
func (g *Group[K, V]) share(ctx context.Context, key K, f *flightOf[V]) (V, error) {
	if g.o.Observer == nil {
		return g.wait(ctx, key, f, f.Landed())
	}
	begun := time.Now()
	value, err := g.wait(ctx, key, f, f.Landed())
	observe(ctx, &g.o, EventShared, key, time.Since(begun), err)
	return value, err
}

// wait returns the result of a flight, or the cause of the caller's own end.
func (g *Group[K, V]) wait(ctx context.Context, key K, f *flightOf[V], landed <-chan struct{}) (V, error) {
	select {
	case <-landed:
		r, _ := f.Result()
		return r.value, r.err
	case <-ctx.Done():
	}
	cause := context.Cause(ctx)
	g.leave(ctx, key, f, cause)
	var none V
	return none, cause
}

// leave ends a flight that its last caller has left.
func (g *Group[K, V]) leave(ctx context.Context, key K, f *flightOf[V], cause error) {
	if g.flights.Leave(key, f) {
		f.Lead.end(cause)
		observe(ctx, &g.o, EventAbandoned, key, 0, cause)
	}
}
