package retryhttp

import (
	"context"
	"net/http"
	"sync"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/retry"
)

// A Transport is an http.RoundTripper that sends a request again if that does no harm. See the package for which and when.
// It is safe for concurrent use.
type Transport struct {
	next  http.RoundTripper
	o     Options
	hosts hosts
	// noKey are the reasons for POST and PATCH.
	noKey  [2]noKeyError
	traces sync.Pool
}

// New returns a transport over next, or over [http.DefaultTransport] if that is nil:
//
//	client := &http.Client{Transport: retryhttp.New(nil, nil)}
func New(next http.RoundTripper, o *Options) *Transport {
	if next == nil {
		next = http.DefaultTransport
	}
	t := &Transport{next: next}
	if o != nil {
		t.o = *o
	}
	t.o.fill()
	t.hosts.make = t.policyOf
	t.traces.New = func() any { return newTrace() }
	t.noKey = [...]noKeyError{{http.MethodPost, t.o.KeyHeader}, {http.MethodPatch, t.o.KeyHeader}}
	return t
}

// RoundTrip sends the request, and again if that does no harm and its failure may pass. It does not change the request.
//
// It returns the last response with its body unread, also if it is one of failure: [ErrorOf] tells why it was not sent again,
// and what is known of its effect. Without a response the error is a [*retry.Error], and holdfast.OutcomeOf tells. Where the
// transaction around the request's context holds locks, it sends nothing and returns a [*holdfast.LockHeldError].
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	if err := holdfast.ExternalCall(ctx); err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // as every transport has to
		}
		return nil, whole(r, err)
	}
	var host string
	if r.URL != nil {
		host = r.URL.Host
	}
	s := sending{t: t, r: r, header: t.header(ctx, r)}
	s.open()
	res, err := retry.Do(ctx, t.hosts.policy(host), s.operation(ctx), func(ctx context.Context, a retry.Attempt) (*http.Response, error) {
		return s.attempt(ctx, a.Number)
	})
	return s.finish(ctx, res, err)
}

// CloseIdleConnections closes those of the transport below, if it can. [http.Client.CloseIdleConnections] calls it.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// operation says why the request may be sent again.
func (s *sending) operation(ctx context.Context) retry.Operation {
	s.keyed = true
	op := retry.Idempotent
	switch s.read = reads(s.r.Method); {
	case s.read:
		op = retry.Read
	case s.r.Method == http.MethodPut, s.r.Method == http.MethodDelete:
	default:
		key := keyOf(s.r.Header, s.t.o.KeyHeader)
		if s.keyed = key != ""; s.keyed {
			op = retry.Keyed(key)
		} else {
			op = retry.Unsafe.Because(s.t.reason(s.r.Method))
		}
	}
	if !s.t.o.Retry.Nested && holdfast.Retrying(ctx) {
		return retry.Once.Because(retry.ErrNested)
	}
	return op
}

// reads reports whether requests of that method have no effect.
func reads(method string) bool {
	switch method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions:
		return true
	}
	return false
}

func (t *Transport) reason(method string) error {
	for i := range t.noKey {
		if t.noKey[i].method == method {
			return &t.noKey[i]
		}
	}
	return &noKeyError{method, t.o.KeyHeader}
}

// header returns the header to send: that of the request, which is not to be changed, or a copy with the correlation ID.
func (t *Transport) header(ctx context.Context, r *http.Request) http.Header {
	name, id := t.o.CorrelationHeader, holdfast.CorrelationID(ctx)
	if name == "-" || !sendable(id) || len(r.Header[name]) > 0 {
		return r.Header
	}
	h := r.Header.Clone()
	if h == nil {
		h = http.Header{}
	}
	h[name] = []string{id}
	return h
}

// sendable reports whether text is a value that every server takes in a header.
func sendable(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return text != "" && text[0] != ' ' && text[len(text)-1] != ' '
}
