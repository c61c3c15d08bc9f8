package idem_test

import (
	"context"
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/idem"
)

// inBatch carries out a plan by [idem.Inbox.DoBatch], and records a call for each message.
func (r *round[T]) inBatch(p *plan[T]) {
	var calls []*record
	for i := range p.keys {
		calls = append(calls, r.begin(p, i))
	}
	var handled, given []string
	values, runs := map[string]string{}, 0
	whole := &record{id: p.id, key: r.key(true, 0) + "/batch", what: calls[0].what, from: calls[0].from}
	r.attempt(p, whole, func(ctx context.Context, fn func(context.Context, T) (string, error)) (res idem.Result[string], err error) {
		ids := append(slices.Clone(p.keys), p.keys[0]) // one of them twice
		handled, err = p.process.inbox.DoBatch(ctx, ids, func(ctx context.Context, t T, ids []string) error {
			given = ids
			runs++
			for _, id := range ids {
				values[id] = fmt.Sprintf("%s.%s.%d", p.id, id, runs)
				if err := r.store.apply(ctx, t, id, values[id]); err != nil {
					return err
				}
			}
			_, err := fn(ctx, t)
			return err
		})
		return idem.Result[string]{Value: whole.value, Replayed: len(handled) == 0}, err
	})
	done := whole.saw == fresh || whole.saw == replayed
	if done && len(handled) > 0 && !slices.Equal(handled, given) {
		r.Errorf("%v: handled %v, and the closure got %v", whole, handled, given)
	}
	for _, call := range calls {
		switch ran := slices.Contains(given, call.key); {
		case done && slices.Contains(handled, call.key):
			call.saw, call.value = fresh, values[call.key]
		case done:
			call.saw = replayed
		case ran && (whole.saw == released || whole.saw == unknown):
			call.saw, call.value = whole.saw, values[call.key]
		}
		r.end(call)
	}
}
