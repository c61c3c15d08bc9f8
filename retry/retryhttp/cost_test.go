package retryhttp_test

import (
	"net/http"
	"testing"

	"github.com/holdfast-go/holdfast/retry/retryhttp"
)

// A request that succeeds at once costs one allocation, also where the proof of a dial may be needed.
func TestAllocations(t *testing.T) {
	res := &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: request(t, "GET", "http://localhost", "", "")}
	transport := retryhttp.New(roundTripper(func(*http.Request) (*http.Response, error) { return res, nil }), nil)
	for _, method := range []string{"GET", "POST"} {
		r, err := http.NewRequestWithContext(t.Context(), method, "http://localhost", nil)
		if err != nil {
			t.Fatal(err)
		}
		got := testing.AllocsPerRun(200, func() {
			if _, err := transport.RoundTrip(r); err != nil {
				t.Error(err)
			}
		})
		if got > 1 {
			t.Errorf("%s: %v allocations", method, got)
		}
	}
}
