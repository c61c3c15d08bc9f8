package retryhttp

import (
	"context"
	"errors"
	"net/http"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/retry"
)

// A sending is the state of one RoundTrip.
type sending struct {
	t      *Transport
	r      *http.Request
	header http.Header
	keyed  bool // or idempotent by its method: it may be sent again
	read   bool // it has no effect

	tape    *tape // of a body without GetBody
	reader  *reader
	frame   *frame         // of the last attempt
	failed  *http.Response // of the last attempt, if it got one
	unknown bool           // some attempt may have had its effect
}

// A frame is the context of one attempt, with the mark of an active retry, and the request that has it, in one allocation.
// It travels with the response, so that ErrorOf finds what is known of it.
type frame struct {
	holdfast.RetryMark

	request http.Request
	trace   *trace // what httptrace finds, unless there is one in the context
	nested  bool   // there is no mark to be seen
	unknown bool   // an attempt before this one may have had its effect
	err     error  // why the request was not sent again after the response
}

type frameKey struct{}

// Value answers to the frame's own key, and to that of the mark.
func (f *frame) Value(key any) any {
	switch {
	case key == frameKey{}:
		return f
	case key == traceKey && f.trace != nil && !f.trace.shared:
		return &f.trace.hooks
	case f.nested:
		return f.Context.Value(key)
	}
	return f.RetryMark.Value(key)
}

// attempt sends the request once. A response that is worth another attempt comes with an error.
func (s *sending) attempt(ctx context.Context, number int) (*http.Response, error) {
	body, err := s.body(number)
	if err != nil {
		return s.failed, &finalError{err, ErrBody} // what the attempt before got is the last response
	}
	if s.failed != nil {
		drain(s.failed, s.t.o.MaxDrain)
		s.failed = nil
	}
	var limit *limit
	if d := s.t.o.Retry.AttemptTimeout; d > 0 {
		ctx, limit = limited(ctx, d)
	}
	f := &frame{RetryMark: holdfast.RetryMark{Context: ctx}, nested: s.t.o.Retry.Nested, unknown: s.unknown}
	if !s.read { // what a failed read did need not be proved
		s.t.trace(f)
	}
	f.request = *s.r.WithContext(f)
	f.request.Header = s.header
	f.request.Body = body
	s.frame = f

	res, err := s.send(&f.request)
	unsent := s.t.unsent(f.trace)
	if limit.stop() {
		err = retry.ErrAttemptTimeout
		if res != nil {
			_ = res.Body.Close()
			res = nil
		}
	}
	if err != nil {
		limit.release()
		return nil, s.fail(sent(err, unsent))
	}
	if res.Request == nil || res.StatusCode >= http.StatusBadRequest && frameOf(res) != f {
		res.Request = &f.request // which ErrorOf asks
	}
	limit.guard(res)
	if !transient(res, s.keyed) {
		return res, nil
	}
	s.failed = res
	return res, s.fail(statusError(res))
}

// send is RoundTrip of the transport below, which is not trusted to return a response or an error, nor a body.
func (s *sending) send(r *http.Request) (*http.Response, error) {
	res, err := s.t.next.RoundTrip(r)
	switch {
	case err != nil:
		if res != nil && res.Body != nil {
			_ = res.Body.Close()
		}
		return nil, err
	case res == nil:
		return nil, errNothing
	case res.Body == nil:
		res.Body = http.NoBody
	}
	return res, nil
}

// fail notes what a failed attempt leaves open, and whether the request can be sent again at all.
func (s *sending) fail(err error) error {
	outcome := holdfast.OutcomeOf(err)
	s.unknown = s.unknown || outcome == holdfast.Unknown && !s.read
	var status *StatusError
	switch {
	case !s.replayable():
		return &finalError{err, ErrBody}
	case !s.keyed && errors.As(err, &status) && outcome == holdfast.NotApplied:
		// What a gateway answers on behalf of a server is no proof to rely on.
		return &finalError{err, s.t.reason(s.r.Method)}
	}
	return err
}

// finish returns what RoundTrip does.
func (s *sending) finish(ctx context.Context, res *http.Response, err error) (*http.Response, error) {
	s.close()
	if err == nil {
		return res, nil
	}
	err = whole(s.r, err)
	switch {
	case res == nil:
		return nil, err
	case ctx.Err() != nil: // nobody could read the body any more
		_ = res.Body.Close()
		return nil, err
	}
	s.frame.err = err
	return res, nil
}

// A limit ends the context of an attempt that takes too long to get a response. A nil limit does nothing.
type limit struct {
	cancel context.CancelCauseFunc
	timer  *time.Timer
}

func limited(ctx context.Context, d time.Duration) (context.Context, *limit) {
	ctx, cancel := context.WithCancelCause(ctx)
	return ctx, &limit{cancel, time.AfterFunc(d, func() { cancel(retry.ErrAttemptTimeout) })}
}

// stop ends the limit, and reports whether the time was over before. The context goes on: the body needs it.
func (l *limit) stop() (over bool) { return l != nil && !l.timer.Stop() }

// release ends the context.
func (l *limit) release() {
	if l != nil {
		l.timer.Stop()
		l.cancel(nil)
	}
}
