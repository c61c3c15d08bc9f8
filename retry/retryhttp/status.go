package retryhttp

import (
	"fmt"
	"net/http"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
)

// A StatusError is a response of failure, 400 or above. For code that has its own loop: give [ErrorOf] of a response to
// [retry.Do].
type StatusError struct {
	// Code is the status.
	Code int
	// After is what Retry-After asks for, not clamped. 0 means that it is not there.
	After time.Duration

	outcome   holdfast.Outcome
	transient bool
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("retryhttp: the server answered %d %s", e.Code, http.StatusText(e.Code))
}

// Outcome is NotApplied for a 4xx, which is the server's word that it refused, and Unknown for a 5xx, for 408, which is often
// a gateway's, and for 409, which can stand for the same request under way. It is Unknown too if an earlier attempt may
// have had its effect, or the request that a redirection led from.
func (e *StatusError) Outcome() holdfast.Outcome { return e.outcome }

// Transient reports whether another attempt may fare better: for 408, 425, 429, 500, 502, 503 and 504, and for 409 with
// Retry-After.
func (e *StatusError) Transient() bool { return e.transient }

// RetryAfter returns After.
func (e *StatusError) RetryAfter() time.Duration { return e.After }

func statusError(res *http.Response) *StatusError {
	e := &StatusError{Code: res.StatusCode, transient: transient(res, true)}
	e.After, _ = RetryAfter(res.Header)
	switch {
	case e.Code >= 500, e.Code == http.StatusRequestTimeout, e.Code == http.StatusConflict:
	default:
		e.outcome = holdfast.NotApplied
	}
	return e
}

// transient reports whether the response is a failure that may pass. keyed says that the server knows a repetition.
func transient(res *http.Response, keyed bool) bool {
	switch res.StatusCode {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	case http.StatusConflict: // the attempt before is still at work
		_, again := RetryAfter(res.Header)
		return keyed && again
	}
	return false
}

// ErrorOf says what a response means: nil below 400, and else an error whose holdfast.OutcomeOf tells whether the request is
// proved to have had no effect. It is a [*retry.Error] if the [Transport] would have sent the request again but for
// something, such as [ErrNoKey], and otherwise a [*StatusError], also for a response of another transport. The body is not
// read.
func ErrorOf(res *http.Response) error {
	f := frameOf(res)
	switch {
	case f != nil && f.err != nil:
		return f.err
	case res.StatusCode < http.StatusBadRequest:
		return nil
	}
	e := statusError(res)
	if f != nil && f.unknown || res.Request != nil && followed(res.Request) != "" {
		e.outcome = holdfast.Unknown
	}
	return e
}

func frameOf(res *http.Response) (f *frame) {
	if res.Request != nil {
		f, _ = res.Request.Context().Value(frameKey{}).(*frame)
	}
	return f
}
