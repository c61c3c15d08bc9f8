package singleflight

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/bound"
)

// A lead is what the first caller brings: the context of the flight, which is the lead itself, and its end.
type lead struct {
	context.Context

	cancel context.CancelCauseFunc // nil if the context cannot end
}

type leadKey struct{}

// Value answers to leadKey by itself, and hides what is bound to a transaction of the first caller.
func (l *lead) Value(key any) any {
	switch {
	case key == leadKey{}:
		return l
	case bound.Key(key):
		return nil
	}
	return l.Context.Value(key)
}

// around reports whether ctx is that of the function of the flight, or of one that it waits for.
func (l *lead) around(ctx context.Context) bool {
	for {
		outer, ok := ctx.Value(leadKey{}).(*lead)
		if !ok || outer == l {
			return ok
		}
		ctx = outer.Context
	}
}

func (l *lead) end(cause error) {
	if l.cancel != nil {
		l.cancel(cause)
	}
}

func begin(ctx context.Context) lead {
	if ctx.Done() == nil {
		return lead{Context: ctx}
	}
	return beginDetached(ctx)
}

// beginDetached makes a context that does not end with the caller's.
func beginDetached(ctx context.Context) lead {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	return lead{ctx, cancel}
}
