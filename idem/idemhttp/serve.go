package idemhttp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/tx"
)

type handler[T any] func(w http.ResponseWriter, r *http.Request, t T) error

// An exchange is one request and what came of its last attempt.
type exchange[T any] struct {
	m    *Middleware[T]
	w    http.ResponseWriter
	r    *http.Request
	body []byte
	fn   handler[T]

	rec    *recorder // of the last attempt, nil if the handler did not run
	failed bool      // the handler's own error ended that attempt
	send   bool      // its response is to be sent although it was rolled back
}

// releasedError ends the transaction of a response that is no answer to keep.
type releasedError struct{ status int }

func (e *releasedError) Error() string {
	return fmt.Sprintf("idemhttp: the handler answered %d: rolled back, the key is free", e.status)
}

// Outcome returns NotApplied.
func (e *releasedError) Outcome() holdfast.Outcome { return holdfast.NotApplied }

// once serves a request with a key.
func (m *Middleware[T]) once(w http.ResponseWriter, r *http.Request, fn handler[T]) {
	x := &exchange[T]{m: m, w: w, r: r, fn: fn}
	key, p := x.identify()
	if p != nil {
		m.refuse(w, r, p)
		return
	}
	ctx, stop := m.context(r)
	defer stop()
	res, err := idem.Do(ctx, m.keys, key, x.attempt)
	if m.refused(ctx, err) {
		x.rec, x.send = nil, false // an attempt before met a conflict: the key was free meanwhile
	}
	var failure *idem.Failure
	switch {
	case !res.Replayed && (err == nil || x.send || !x.failed && errors.As(err, &failure)):
		x.answer()
	case res.Replayed && err == nil:
		x.replay(res.Body, false)
	case res.Replayed && errors.Is(err, idem.ErrNotRetained):
		x.replay(nil, true)
	case res.Replayed && errors.As(err, &failure):
		x.replay(failure.Body, len(failure.Body) == 0)
	default:
		m.refuse(w, r, problemOf(err, x.rec != nil))
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
	x := &exchange[T]{m: m, w: w, r: r, fn: fn}
	if p := x.read(); p != nil {
		m.refuse(w, r, p)
		return
	}
	ctx, stop := m.context(r)
	defer stop()
	err := m.keys.DB().Do(ctx, func(ctx context.Context, t T) error {
		_, err := x.attempt(ctx, t)
		x.send = x.send || !x.failed && err != nil
		return err
	})
	if err == nil || x.send {
		x.answer()
		return
	}
	m.refuse(w, r, problemOf(err, x.rec != nil))
}

// attempt runs the handler once and returns what to store. Nothing is left of the attempt before.
func (x *exchange[T]) attempt(ctx context.Context, t T) ([]byte, error) {
	x.rec, x.failed, x.send = newRecorder(x.w, x.m.o.MaxResponse), true, false
	r := x.r.Clone(context.WithValue(ctx, txKey[T]{}, t))
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(x.body)), int64(len(x.body))
	defer func() {
		if r.MultipartForm != nil && x.r.MultipartForm == nil { // the server cleans up after the request that it made, which is another
			_ = r.MultipartForm.RemoveAll()
		}
	}()
	err := x.fn(x.rec, r, t)
	var failure *idem.Failure
	if errors.As(err, &failure) && !x.m.conflict(err) {
		x.rec.fail(failure)
		err = nil
	}
	if err == nil {
		err = x.rec.misuse
	}
	if err != nil {
		x.send = x.rec.status >= http.StatusBadRequest
		return nil, err
	}
	x.failed = false
	x.rec.finish(x.r.Method)
	stored := x.rec.encode(x.m.o.Headers)
	switch status := x.rec.status; {
	case status < http.StatusBadRequest:
		return stored, nil
	case x.m.keeps(status):
		return nil, &idem.Failure{Status: status, Message: http.StatusText(status), Body: stored}
	default:
		x.send = true
		return nil, &releasedError{status}
	}
}

// conflict reports whether the handler is to run again, whatever it made of it: see [idem.Terminal].
func (m *Middleware[T]) conflict(err error) bool {
	var inner *tx.AbortError // of another transaction, which has been tried often enough
	return m.keys.DB().Classify(err) == tx.Retryable && !errors.As(err, &inner)
}

// keeps tells error statuses that are answers.
func (m *Middleware[T]) keeps(status int) bool {
	return (&idem.Failure{Status: status}).Stored() && (m.o.Release == nil || !m.o.Release(status))
}

// answer sends the response that the handler made, after its transaction has ended.
func (x *exchange[T]) answer() {
	x.rec.finish(x.r.Method)
	switch {
	case !x.rec.over:
		x.rec.send()
	case x.send:
		x.m.refuse(x.w, x.r, failed(&releasedError{x.rec.status}))
	default:
		x.m.refuse(x.w, x.r, notRetained(idem.ErrNotRetained))
	}
}

// replay sends a stored response, or says that it was not retained.
func (x *exchange[T]) replay(stored []byte, lost bool) {
	if f := x.m.o.AuthorizeReplay; f != nil {
		if err := f(x.r); err != nil {
			x.m.refuse(x.w, x.r, forbidden(err))
			return
		}
	}
	a, err := decode(stored)
	switch {
	case lost, err == nil && a.over:
		x.m.refuse(x.w, x.r, notRetained(idem.ErrNotRetained))
	case err != nil:
		x.m.refuse(x.w, x.r, unread(err))
	default:
		a.send(x.w, x.r.Method, x.m.o.ReplayHeader)
	}
}

// context returns the one of the work.
func (m *Middleware[T]) context(r *http.Request) (context.Context, context.CancelFunc) {
	if m.o.Linger == 0 {
		return r.Context(), func() {}
	}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.Context()))
	stop := context.AfterFunc(r.Context(), func() {
		timer := time.NewTimer(m.o.Linger)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel(context.Cause(r.Context()))
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		stop()
		cancel(nil)
	}
}
