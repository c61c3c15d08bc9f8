package leasetest

import (
	"context"

	holdfast "github.com/holdfast-go/holdfast"
)

// events are what an observer was told.
type events chan holdfast.Event

func (e events) Observe(_ context.Context, event holdfast.Event) { e <- event }

// count takes what was told so far, and counts one kind of it.
func (e events) count(kind holdfast.EventKind) (n int) {
	for {
		select {
		case event := <-e:
			if event.Kind == kind {
				n++
			}
		default:
			return n
		}
	}
}
