package idem

import (
	"context"

	"github.com/holdfast-go/holdfast/tx"
)

// Do does the work of an operation once. It begins a transaction, claims key in it, calls fn, stores the result and
// commits, all in one commit: if the process dies at any point, either all of it is there or nothing is. A repetition
// gets the stored result, byte for byte, without a write. A duplicate at the same moment never runs fn: it waits, bounded
// by Options.Wait, or is refused with [ErrInFlight].
//
// If fn returns a [*Failure] that is to be stored, its writes are undone and the failure is the answer, for this call and
// for every repetition. After any other error everything is rolled back and the key is free. fn runs again, in a fresh
// transaction, after a serialization failure or a deadlock, as in [tx.DB.Do]. It must not call out to other services: a
// charge cannot be rolled back. In a closure of the same DB, Do joins its transaction, as [DoTx] does.
//
// On pgx it costs no round trip more than the transaction of fn would by itself. The exception is a storm of
// repetitions: while they are more than two calls of three, each call reads first, which answers a repetition in one round
// trip and costs a first call one. At REPEATABLE READ and SERIALIZABLE the first call of a Keys costs one more, which finds
// out the level.
//
// Besides the errors of fn and of [tx.DB.Do], it returns [*Failure], [*KeyError], [*MismatchError], [*InFlightError],
// [ErrKeyExpired], [ErrNotRetained], [ErrResult], [ErrStoreUnavailable] and [ErrOutcomeUnknown]. After ErrOutcomeUnknown
// a retry with the same key is safe, and finds out.
func Do[T, R any](ctx context.Context, keys *Keys[T], key Key, fn func(ctx context.Context, t T) (R, error)) (Result[R], error) {
	if fn == nil {
		return Result[R]{}, tx.ErrNilFunc
	}
	if t, ok := keys.db.Current(ctx); ok {
		return DoTx(ctx, keys, t, key, fn)
	}
	var value R
	e, replayed, err := keys.do(ctx, key, encoding(fn, &value))
	return result(&keys.core, e, value, replayed, err)
}

// work is the closure of the caller, with its result encoded.
type work[T any] func(ctx context.Context, t T) (entry, error)

func encoding[T, R any](fn func(ctx context.Context, t T) (R, error), value *R) work[T] {
	return func(ctx context.Context, t T) (entry, error) {
		v, err := fn(ctx, t)
		if err != nil {
			return entry{}, tx.NoDiscard(err)
		}
		codec, body, err := encode(v)
		*value = v
		return entry{state: stateCompleted, codec: codec, body: body, stored: body}, err
	}
}

// result makes the answer of an entry. The value is that of the closure if it ran.
func result[R any](keys *core, e entry, value R, replayed bool, err error) (Result[R], error) {
	if err != nil {
		return Result[R]{}, keys.kept(e, err)
	}
	r := Result[R]{Value: value, Body: e.body, Replayed: replayed}
	if !replayed {
		return r, nil
	}
	if e.state == stateFailed {
		failure, err := decodeFailure(e.status, e.body)
		if err != nil {
			return Result[R]{}, keys.unread(e.state, err)
		}
		return Result[R]{Replayed: true}, keys.kept(e, failure)
	}
	r.Value, err = decode[R](e.codec, e.body)
	return r, keys.unread(e.state, err)
}
