package idemhttp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/tx"
)

// Codes of a [Problem]. They are stable: clients may branch on them.
const (
	CodeKeyMissing       = "idempotency_key_missing"       // 400: the request needs a key
	CodeKeyInvalid       = "idempotency_key_invalid"       // 400: the key cannot be used
	CodeKeyAmbiguous     = "idempotency_key_ambiguous"     // 400: there are several keys
	CodeBodyUnreadable   = "idempotency_body_unreadable"   // 400: the body did not arrive whole
	CodeNoScope          = "idempotency_no_scope"          // 403: nobody knows whose request it is
	CodeForbidden        = "idempotency_replay_forbidden"  // 403: the caller may not see the stored answer any more
	CodeInFlight         = "idempotency_in_flight"         // 409, Retry-After: the first request is still running
	CodeNotRetained      = "idempotency_not_retained"      // 409: it was done, and its answer was too large to keep
	CodeKeyExpired       = "idempotency_key_expired"       // 410: it was done long ago, and its answer is no longer kept
	CodeBodyTooLarge     = "idempotency_body_too_large"    // 413: see Options.MaxRequest
	CodeKeyReused        = "idempotency_key_reused"        // 422: the key came with another request before
	CodeOperationFailed  = "operation_failed"              // that of an [idem.Failure] without a body
	CodeRequestFailed    = "request_failed"                // 500: the handler failed, or a stored answer cannot be read; see the detail
	CodeMisconfigured    = "idempotency_misconfigured"     // 500: nothing was done; see Middleware.Check
	CodeStoreUnavailable = "idempotency_store_unavailable" // 503, Retry-After: nothing was done
	CodeOutcomeUnknown   = "idempotency_outcome_unknown"   // 503: a retry with the same key finds out, after Retry-After; without that, a person has to
)

// EventRefused: a request was refused. Name is the code of the problem, Err its cause.
const EventRefused holdfast.EventKind = "idemhttp.refused"

// A Problem is the answer to a request that is refused, in the form of RFC 9457.
type Problem struct {
	// Status is the HTTP status.
	Status int
	// Code tells refusals apart, where several share a status or the service uses it as well.
	Code string
	// Detail says what is wrong and how to mend it. It tells nothing of the inside of the service.
	Detail string
	// RetryAfter is when to ask again. 0 means that it is of no use.
	RetryAfter time.Duration
	// Err is what happened, for the log. It is not sent.
	Err error
}

// Write sends p.
func (p *Problem) Write(w http.ResponseWriter) {
	text, err := json.Marshal(struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
		Code   string `json:"code"`
	}{"about:blank", http.StatusText(p.Status), p.Status, p.Detail, p.Code})
	if err != nil {
		panic(err) // texts and a number always have a JSON form
	}
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Content-Length", strconv.Itoa(len(text)))
	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(p.RetryAfter.Seconds()))))
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(text)
}

func (m *gate) refuse(w http.ResponseWriter, r *http.Request, p *Problem) {
	m.log(r, p)
	holdfast.Observe(r.Context(), m.o.Observer, holdfast.Event{Kind: EventRefused, Name: p.Code, Err: p.Err})
	m.o.Refuse(w, r, p)
}

// log tells the operator of what is wrong with the service.
func (m *gate) log(r *http.Request, p *Problem) {
	level := slog.LevelError
	switch {
	case p.Status < http.StatusInternalServerError, errors.Is(r.Context().Err(), context.Canceled) && errors.Is(p.Err, context.Canceled):
		return
	case p.Status == http.StatusServiceUnavailable:
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{slog.Int("status", p.Status), slog.String("code", p.Code), slog.String("name", m.o.Name(r)), slog.Any("error", p.Err)}
	if id := holdfast.CorrelationID(r.Context()); id != "" {
		attrs = append(attrs, slog.String("correlation_id", id))
	}
	cmp.Or(m.o.ErrorLog, slog.Default()).LogAttrs(r.Context(), level, "idemhttp: a request was refused", attrs...)
}

// again is when to come back after a trouble of the server's.
const again = time.Second

// problemOf tells what an error of idem.Do or tx.DB.Do means to the client. ran tells that the handler did.
func problemOf(err error, ran bool) *Problem {
	var inFlight *idem.InFlightError
	var key *idem.KeyError
	var aborted *tx.AbortError
	// What stands further inside an error is told of another transaction.
	outcome := holdfast.OutcomeOf(err)
	switch {
	case outcome == holdfast.NotApplied && errors.As(err, &aborted):
		return abortedProblem(aborted, ran)
	case outcome == holdfast.Unknown && errors.Is(err, idem.ErrOutcomeUnknown):
		return outcomeUnknown(err)
	case ran:
	case errors.As(err, &inFlight) && inFlight.Nested: // the middleware stands twice in the way of the request
		return misconfigured(err)
	case errors.As(err, &inFlight):
		return &Problem{
			Status: http.StatusConflict, Code: CodeInFlight, RetryAfter: inFlight.RetryAfter, Err: err,
			Detail: "A request with this key is being processed. Send it again later, with the same key.",
		}
	case errors.Is(err, idem.ErrMismatch):
		return &Problem{
			Status: http.StatusUnprocessableEntity, Code: CodeKeyReused, Err: err,
			Detail: "The key was used for a different request. Use a new key for a new request.",
		}
	case errors.Is(err, idem.ErrKeyExpired):
		return &Problem{
			Status: http.StatusGone, Code: CodeKeyExpired, Err: err,
			Detail: "The key was used, and its answer is no longer kept. Use a new key for a new request.",
		}
	case errors.As(err, &key) && key.Part == "Scope":
		return noScope(err)
	case errors.As(err, &key):
		return misconfigured(err)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return unavailable(err)
	case errors.Is(err, idem.ErrResult):
		return unread(err)
	case outcome == holdfast.NotApplied: // options that cannot be used
		return misconfigured(err)
	}
	return failed(err)
}

// abortedProblem is the one of a transaction that was rolled back. Before the handler ran, only the store can have failed.
func abortedProblem(err *tx.AbortError, ran bool) *Problem {
	switch {
	case !ran && err.Class == tx.Undefined:
		return misconfigured(err)
	case !ran:
		return unavailable(err)
	}
	switch err.Class {
	case tx.NotSent, tx.Lost, tx.Retryable, tx.ReadOnly:
		return unavailable(err)
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return unavailable(err)
	}
	return failed(err)
}

func unavailable(err error) *Problem {
	return &Problem{
		Status: http.StatusServiceUnavailable, Code: CodeStoreUnavailable, RetryAfter: again, Err: err,
		Detail: "The service is unavailable for a moment, and nothing was done. Send the request again, with the same key.",
	}
}

func failed(err error) *Problem {
	p := &Problem{Status: http.StatusInternalServerError, Code: CodeRequestFailed, Err: err, Detail: "The request failed, and nobody knows what was done."}
	if holdfast.OutcomeOf(err) == holdfast.NotApplied {
		p.Detail = "The request failed, and nothing was done. It may be sent again, with the same key."
	}
	return p
}

func unread(err error) *Problem {
	return &Problem{
		Status: http.StatusInternalServerError, Code: CodeRequestFailed, Err: err,
		Detail: "The request was processed before, and its answer cannot be read. It is not processed again.",
	}
}

func misconfigured(err error) *Problem {
	return &Problem{
		Status: http.StatusInternalServerError, Code: CodeMisconfigured, Err: err,
		Detail: "The service is not set up to take keys, and nothing was done.",
	}
}

func keyInvalid(what string, err error) *Problem {
	return &Problem{
		Status: http.StatusBadRequest, Code: CodeKeyInvalid, Err: err,
		Detail: fmt.Sprintf("The key in the header %s %v. Send 1 to 255 printable ASCII characters, such as a UUID.", what, err),
	}
}

func noScope(err error) *Problem {
	return &Problem{
		Status: http.StatusForbidden, Code: CodeNoScope, Err: err,
		Detail: "It is not known whose request this is, and keys belong to somebody.",
	}
}

func forbidden(err error) *Problem {
	return &Problem{
		Status: http.StatusForbidden, Code: CodeForbidden, Err: err,
		Detail: "The request was done before, and its answer is not for this caller any more.",
	}
}

func notRetained(err error) *Problem {
	return &Problem{
		Status: http.StatusConflict, Code: CodeNotRetained, Err: err,
		Detail: "The request was processed, and its answer was too large to keep. It is not processed again.",
	}
}

func bodyUnreadable(err error) *Problem {
	return &Problem{
		Status: http.StatusBadRequest, Code: CodeBodyUnreadable, Err: err,
		Detail: "The body of the request did not arrive whole.",
	}
}

func bodyTooLarge(limit int64) *Problem {
	return &Problem{
		Status: http.StatusRequestEntityTooLarge, Code: CodeBodyTooLarge,
		Detail: fmt.Sprintf("The body may have %d bytes at most.", limit),
	}
}
