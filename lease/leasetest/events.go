package leasetest

import (
	"context"

	holdfast "github.com/holdfast-go/holdfast"
)

// events are what an observer was told.
type events chan holdfast.Event

func (e events) Observe(_ context.Context, event holdfast.Event) { e <- event }

// of takes what was told so far, and returns one kind of it.
func (e events) of(kind holdfast.EventKind) (told []holdfast.Event) {
	for {
		select {
		case event := <-e:
			if event.Kind == kind {
				told = append(told, event)
			}
		default:
			return told
		}
	}
}

func (e events) count(kind holdfast.EventKind) int { return len(e.of(kind)) }
