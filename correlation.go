package holdfast

import "context"

type correlationKey struct{}

// WithCorrelationID returns a context that carries id, so that every event and every retry of one original request
// can be found together. Holdfast never makes an ID up.
func WithCorrelationID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, correlationKey{}, id)
}

// CorrelationID returns the ID that [WithCorrelationID] put into ctx, or "".
func CorrelationID(ctx context.Context) string {
	id, _ := ctx.Value(correlationKey{}).(string)
	return id
}
