package idem

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/holdfast-go/holdfast/tx"
)

// A Handler does one operation for callers, and for [Leased.Complete], which pushes on what callers have left behind. It is safe
// for concurrent use.
type Handler[H Runner, In, R any] struct {
	keys *Leased[H]
	name string
	fn   func(ctx context.Context, run H, in In) (R, error)
	err  error
}

// handlers are those of a Leased, by the name of the operation.
type handlers struct {
	mu     sync.Mutex // guards byName
	byName map[string]func() leasedWork
}

// Handle registers fn for the operation of that name, and returns what calls it; see [DoLeased] for what fn does. The input is
// stored as JSON with the claim, sealed as answers are, until there is an answer: so another process can go on where one died. A
// name is registered once, at the start of every process that calls [Leased.Complete]; errors are reported by [Handler.Do].
func Handle[H Runner, In, R any](keys *Leased[H], name string, fn func(ctx context.Context, run H, in In) (R, error)) *Handler[H, In, R] {
	h := &Handler[H, In, R]{keys: keys, name: name, fn: fn, err: validatePart("Name", name)}
	if fn == nil {
		h.err = tx.ErrNilFunc
	}
	if h.err == nil {
		h.err = keys.handlers.add(name, func() leasedWork { return encodingRun(keys, h.closure(nil), new(R)) })
	}
	return h
}

func (hs *handlers) add(name string, fn func() leasedWork) error {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if hs.byName[name] != nil {
		return &KeyError{Part: "Name", Reason: fmt.Sprintf("%q has a handler already: call that", name)}
	}
	if hs.byName == nil {
		hs.byName = map[string]func() leasedWork{}
	}
	hs.byName[name] = fn
	return nil
}

// Do is [DoLeased] with the handler's function. The name of key is that of the handler, and may be empty; its fingerprint, if it has
// none, is that of in.
func (h *Handler[H, In, R]) Do(ctx context.Context, key Key, in In) (Result[R], error) {
	if h.err != nil {
		return Result[R]{}, h.err
	}
	if key.Name != "" && key.Name != h.name {
		return Result[R]{}, &KeyError{Part: "Name", Reason: fmt.Sprintf("is %q, and the handler is for %q", key.Name, h.name)}
	}
	key.Name = h.name
	input, err := json.Marshal(in)
	if err != nil {
		return Result[R]{}, fmt.Errorf("%w: encode the input: %w", ErrResult, err)
	}
	if key.Fingerprint == (Fingerprint{}) {
		key.Fingerprint = FingerprintOf(input)
	}
	return doLeased(ctx, h.keys, key, input, h.closure(input))
}

// closure is the function with the stored input, or with that of the call where none is stored.
func (h *Handler[H, In, R]) closure(input []byte) func(ctx context.Context, run H) (R, error) {
	return func(ctx context.Context, run H) (R, error) {
		var in In
		if stored := run.run().input; stored != nil {
			input = stored
		}
		if err := json.Unmarshal(input, &in); err != nil {
			var none R
			return none, fmt.Errorf("%w: decode the input: %w", ErrResult, err)
		}
		return h.fn(ctx, run, in)
	}
}
