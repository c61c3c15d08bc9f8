package idemhttp

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/tx"
)

// errStored is what a handler gets that writes after [Finish].
var errStored = errors.New("idemhttp: the response is stored: write it inside Finish")

type exchangeKey struct{}

// Finish runs fn in a business transaction that stores the response with its commit: what fn writes in t and to the response are
// there together, or not at all. It is the last thing that a handler behind a [Leased] does; what the handler writes or returns after
// that does not count. ctx is that of the request.
//
// A status below 400 commits. A 4xx that another attempt cannot change, or a returned [*idem.Failure] with one, undoes what fn wrote
// in t and is stored: Finish returns the failure then. Any other status, and an error of fn, rolls back, and the response is not
// stored: return the error of Finish, and the next request with the key goes on from the steps that are recorded.
//
// fn runs again, with the response as it was before Finish, after a serialization failure or a deadlock, which it must return as its
// error. See [idem.Finish] for what else is returned, and for what a handler loses whose lease was lost.
func Finish[T any](ctx context.Context, run *idem.RunTx[T], fn func(ctx context.Context, t T) error) error {
	x, ok := ctx.Value(exchangeKey{}).(*exchange)
	if !ok || run == nil {
		return ErrNoRun
	}
	if fn == nil {
		return tx.ErrNilFunc
	}
	before := x.rec.copy()
	_, err := idem.Finish(ctx, run, func(ctx context.Context, t T) ([]byte, error) {
		*x.rec = *before.copy()
		returned := fn(ctx, t)
		stored, err := x.settle(returned, noConflict)
		if returned != nil && err != nil {
			err = fmt.Errorf("%w: %w", err, returned) // it may be a conflict, whatever the handler made of it
		}
		return stored, err
	})
	var failure *idem.Failure
	var aborted *tx.AbortError
	switch {
	case err == nil, errors.As(err, &failure) && !errors.As(err, &aborted):
		x.rec.stored = true
	case !x.send:
		*x.rec = *before
	}
	return err
}
