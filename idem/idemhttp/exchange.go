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
)

// An exchange is one request and what came of its last attempt.
type exchange struct {
	m    *gate
	w    http.ResponseWriter
	r    *http.Request
	body []byte

	rec    *recorder // of the last attempt, nil if the handler did not run
	failed bool      // the handler's own error ended that attempt
	send   bool      // its response is to be sent although it is not stored
}

// releasedError ends the work of a response that is no answer to keep.
type releasedError struct{ status int }

func (e *releasedError) Error() string {
	return fmt.Sprintf("idemhttp: the handler answered %d, which is not stored", e.status)
}

// Outcome returns NotApplied.
func (e *releasedError) Outcome() holdfast.Outcome { return holdfast.NotApplied }

// attempt runs the handler once and returns what to store. Nothing is left of the attempt before. conflict tells errors after
// which the handler is to run again, whatever it made of them.
func (x *exchange) attempt(ctx context.Context, fn func(w http.ResponseWriter, r *http.Request) error, conflict func(error) bool) ([]byte, error) {
	x.rec, x.failed, x.send = newRecorder(x.w, x.m.o.MaxResponse), true, false
	r := x.r.Clone(ctx)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(x.body)), int64(len(x.body))
	defer func() {
		if r.MultipartForm != nil && x.r.MultipartForm == nil { // the server cleans up after the request that it made, which is another
			_ = r.MultipartForm.RemoveAll()
		}
	}()
	err := fn(x.rec, r)
	if x.rec.stored {
		return nil, nil //nolint:nilnil // Finish has stored the answer
	}
	return x.settle(err, conflict)
}

// settle returns what to store of the response that was recorded, whose handler returned err.
func (x *exchange) settle(err error, conflict func(error) bool) ([]byte, error) {
	x.failed = true
	var failure *idem.Failure
	if errors.As(err, &failure) && !conflict(err) {
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

// keeps tells error statuses that are answers.
func (m *gate) keeps(status int) bool {
	return (&idem.Failure{Status: status}).Stored() && (m.o.Release == nil || !m.o.Release(status))
}

// conclude answers the request with what came of the operation, or reports that the attempt has none.
func (x *exchange) conclude(res idem.Result[[]byte], err error) bool {
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
		return false
	}
	return true
}

// answer sends the response that the handler made, after its work has ended.
func (x *exchange) answer() {
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
func (x *exchange) replay(stored []byte, lost bool) {
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
func (m *gate) context(r *http.Request) (context.Context, context.CancelFunc) {
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
