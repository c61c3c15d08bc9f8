package singleflight

import "context"

// Close refuses calls from here on with [ErrClosed], and waits for those under way. When ctx ends first, it ends their
// contexts, does not wait, and returns the cause; functions of callers whose contexts cannot end go on. It may be called again,
// to wait for those.
func (g *Group[K, V]) Close(ctx context.Context) error {
	under := g.flights.Close()
	for _, f := range under {
		select {
		case <-f.Landed():
		case <-ctx.Done():
			for _, f := range under {
				f.Lead.end(ErrClosed)
			}
			return context.Cause(ctx)
		}
	}
	return nil
}
