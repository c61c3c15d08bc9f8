package holdfast

import "context"

// A RetryMark is the context of an attempt that somebody makes again if it fails. What it calls must then not do the same:
// three layers of four attempts each are 64 calls. Package retry sets it and looks for it with [Retrying]; whoever writes a
// loop of their own can do both. It is a context by its pointer.
type RetryMark struct {
	context.Context
}

type retryMarkKey struct{}

// Value answers to the mark's own key, which saves a context around it.
func (m *RetryMark) Value(key any) any {
	if key == (retryMarkKey{}) {
		return m
	}
	return m.Context.Value(key)
}

// Retrying reports whether a [RetryMark] is around ctx.
func Retrying(ctx context.Context) bool { return ctx.Value(retryMarkKey{}) != nil }
