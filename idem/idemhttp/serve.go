package idemhttp

import (
	"context"
	"errors"
	"net/http"

	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/tx"
)

type handler[T any] func(w http.ResponseWriter, r *http.Request, t T) error

// once serves a request with a key.
func (m *Middleware[T]) once(w http.ResponseWriter, r *http.Request, fn handler[T]) {
	x := &exchange{m: m.gate, w: w, r: r}
	key, p := x.identify()
	if p != nil {
		m.refuse(w, r, p)
		return
	}
	ctx, stop := m.context(r)
	defer stop()
	res, err := idem.Do(ctx, m.keys, key, m.work(x, fn))
	if m.refused(ctx, err) {
		x.rec, x.send = nil, false // an attempt before met a conflict: the key was free meanwhile
	}
	if !x.conclude(res, err) {
		m.refuse(w, r, problemOf(err, x.rec != nil))
	}
}

// work is one attempt, with the transaction in the context of the request.
func (m *Middleware[T]) work(x *exchange, fn handler[T]) func(ctx context.Context, t T) ([]byte, error) {
	return func(ctx context.Context, t T) ([]byte, error) {
		call := func(w http.ResponseWriter, r *http.Request) error { return fn(w, r, t) }
		return x.attempt(context.WithValue(ctx, txKey[T]{}, t), call, m.conflict)
	}
}

// refused reports whether err refuses the key, so that no attempt counts. The error of a handler comes wrapped in what
// became of its transaction, except in a transaction around, where there is one attempt.
func (m *Middleware[T]) refused(ctx context.Context, err error) bool {
	if _, joined := m.keys.DB().Current(ctx); joined {
		return false
	}
	switch err.(type) { //nolint:errorlint // see above
	case *idem.InFlightError, *idem.MismatchError:
		return true
	}
	return err == idem.ErrKeyExpired //nolint:errorlint // see above
}

// unkeyed serves a request without a key.
func (m *Middleware[T]) unkeyed(w http.ResponseWriter, r *http.Request, fn handler[T]) {
	x := &exchange{m: m.gate, w: w, r: r}
	if p := x.read(); p != nil {
		m.refuse(w, r, p)
		return
	}
	ctx, stop := m.context(r)
	defer stop()
	work := m.work(x, fn)
	err := m.keys.DB().Do(ctx, func(ctx context.Context, t T) error {
		_, err := work(ctx, t)
		x.send = x.send || !x.failed && err != nil
		return err
	})
	if err == nil || x.send {
		x.answer()
		return
	}
	m.refuse(w, r, problemOf(err, x.rec != nil))
}

// conflict reports whether the handler is to run again, whatever it made of it: see [idem.Terminal].
func (m *Middleware[T]) conflict(err error) bool {
	var inner *tx.AbortError // of another transaction, which has been tried often enough
	return m.keys.DB().Classify(err) == tx.Retryable && !errors.As(err, &inner)
}
