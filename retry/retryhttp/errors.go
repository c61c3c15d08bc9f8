package retryhttp

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/retry"
)

// Why a request was not sent again, besides the reasons of package retry.
var (
	// ErrNoKey: the method is not idempotent, and nothing lets the server know a repetition.
	ErrNoKey = errors.New("retryhttp: not retried: no Idempotency-Key")
	// ErrBody: the body cannot be sent again.
	ErrBody = errors.New("retryhttp: not retried: the body cannot be sent again: set Request.GetBody or raise Options.MaxBody")
)

var errNothing = errors.New("retryhttp: the transport below returned neither a response nor an error")

type noKeyError struct{ method, header string }

func (e *noKeyError) Error() string {
	return fmt.Sprintf("retryhttp: not retried: %s without %s", e.method, e.header)
}

// Is matches ErrNoKey.
func (e *noKeyError) Is(target error) bool { return target == ErrNoKey }

// A finalError is one after which the request cannot be sent again, whatever the error says.
type finalError struct {
	error
	why error
}

func (e *finalError) Unwrap() error { return e.error }

// verdict asks classify what err means, and honours what stands in the way of another attempt.
func verdict(classify func(error) retry.Verdict, err error) retry.Verdict {
	v := classify(err)
	var final *finalError
	if errors.As(err, &final) && v.Stop == nil {
		v.Stop = final.why
	}
	return v
}

// A sendError is one without a response.
type sendError struct {
	error
	unsent bool
}

func (e *sendError) Unwrap() error { return e.error }

// Outcome goes by what the trace proved: that an error is one of dialing says little, since a transport may dial for
// something else, after it has sent the request.
func (e *sendError) Outcome() holdfast.Outcome {
	if e.unsent {
		return holdfast.NotApplied
	}
	return holdfast.Unknown
}

// Transient is false for what only a change of the client or the server cures.
func (e *sendError) Transient() bool {
	var untrusted *tls.CertificateVerificationError
	return !errors.As(e.error, &untrusted) && retry.Classify(e.error).Stop == nil
}

// sent returns err with what the trace proved. An error that states its outcome knows better.
func sent(err error, unsent bool) error {
	var stated interface{ Outcome() holdfast.Outcome }
	if errors.As(err, &stated) {
		return err
	}
	return &sendError{err, unsent}
}

// A followError is that of a request that a redirection led to, from one that may have had its effect.
type followError struct {
	error
	method string
}

func (e *followError) Error() string {
	return fmt.Sprintf("retryhttp: after the redirection of a %s, which may have had its effect: %v", e.method, e.error)
}

func (e *followError) Unwrap() error { return e.error }

// Outcome is that of all the requests.
func (e *followError) Outcome() holdfast.Outcome { return holdfast.Unknown }

// whole returns err as that of all the requests which redirections led from one to the next: http.Client returns only what
// became of the last, and a proof that this one did nothing says nothing of the first.
func whole(r *http.Request, err error) error {
	if method := followed(r); err != nil && method != "" {
		return &followError{err, method}
	}
	return err
}

// followed returns the method of the request that a redirection led from to r, if it may have had an effect. 307 and 308 ask to
// send it elsewhere: they are the server's word that it did nothing.
func followed(r *http.Request) (method string) {
	for r.Response != nil && r.Response.Request != nil {
		code := r.Response.StatusCode
		r = r.Response.Request
		if !reads(r.Method) && code != http.StatusTemporaryRedirect && code != http.StatusPermanentRedirect {
			return r.Method
		}
	}
	return ""
}
