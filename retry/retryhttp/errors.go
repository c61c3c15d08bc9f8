package retryhttp

import (
	"crypto/tls"
	"errors"
	"fmt"

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
