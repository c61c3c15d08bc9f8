package retryhttp_test

import (
	"net/http"
	"testing"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/retry/retryhttp"
)

// direct answers without a network: what is left is the transport itself.
type direct struct{ res *http.Response }

func (d direct) RoundTrip(*http.Request) (*http.Response, error) { return d.res, nil }

// marking does the least that a transport must which tells what is below it something: it sends a copy with a context of its own.
type marking struct{ next http.RoundTripper }

func (m marking) RoundTrip(r *http.Request) (*http.Response, error) {
	return m.next.RoundTrip(r.WithContext(&holdfast.RetryMark{Context: r.Context()}))
}

func BenchmarkRoundTrip(b *testing.B) {
	res := &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: &http.Request{}}
	for name, transport := range map[string]http.RoundTripper{
		"bare": direct{res}, "copy": marking{direct{res}}, "retryhttp": retryhttp.New(direct{res}, nil),
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			r, err := http.NewRequestWithContext(b.Context(), method, "http://example.com/", http.NoBody)
			if err != nil {
				b.Fatal(err)
			}
			b.Run(name+"/"+method, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					_, _ = transport.RoundTrip(r) //nolint:bodyclose // there is none
				}
			})
		}
	}
}
