package singleflight_test

import (
	"context"
	"sync"

	holdfast "github.com/holdfast-go/holdfast"
)

// A recorder keeps what it observes.
type recorder struct {
	mu     sync.Mutex // guards events
	events []holdfast.Event
}

func (r *recorder) Observe(_ context.Context, e holdfast.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// of returns the events of a kind.
func (r *recorder) of(kind holdfast.EventKind) (found []holdfast.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.Kind == kind {
			found = append(found, e)
		}
	}
	return found
}
