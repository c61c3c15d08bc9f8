package pessimistic

import (
	"net/http"

	holdfast "github.com/holdfast-go/holdfast"
)

// Guard returns a transport that refuses every request whose context is that of a transaction which holds locks, with a
// [*holdfast.LockHeldError] that names them: everyone who waits for the locks would wait for the peer. The request must
// carry that context, as http.NewRequestWithContext makes it. What is allowed goes to next, or to [http.DefaultTransport] if
// that is nil. It is as safe for concurrent use as next.
//
// For a client that is not HTTP, call [holdfast.ExternalCall] before the call.
func Guard(next http.RoundTripper) http.RoundTripper {
	if next == nil {
		next = http.DefaultTransport
	}
	return guard{next}
}

type guard struct{ next http.RoundTripper }

func (g guard) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := holdfast.ExternalCall(r.Context()); err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // as every transport has to
		}
		return nil, err
	}
	return g.next.RoundTrip(r)
}
