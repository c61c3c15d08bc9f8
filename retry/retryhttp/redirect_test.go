package retryhttp_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/retry"
	"github.com/holdfast-go/holdfast/retry/retryhttp"
)

// A client that follows a redirection returns what became of the last request. That it did nothing, or that nothing of it was
// sent, proves nothing of the first.
func TestARedirectionProvesNothingOfTheFirst(t *testing.T) {
	t.Parallel()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead := "http://" + listener.Addr().String()
	_ = listener.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(gone.Close)
	for _, c := range []struct {
		name, method string
		code         int
		to           string
		outcome      holdfast.Outcome
	}{
		{"nobody there", "POST", http.StatusSeeOther, dead, holdfast.Unknown},
		{"nobody there, found", "POST", http.StatusFound, dead, holdfast.Unknown},
		{"nothing there", "POST", http.StatusSeeOther, gone.URL, holdfast.Unknown},
		{"nobody elsewhere", "POST", http.StatusTemporaryRedirect, dead, holdfast.NotApplied},
		{"nobody there to read", "GET", http.StatusFound, dead, holdfast.NotApplied},
		{"deleted", "DELETE", http.StatusSeeOther, dead, holdfast.Unknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, c.to, c.code) })
			res, err := newClient(t, retryhttp.Options{Retry: retry.Options{Nested: true}}).Do(request(t, c.method, s.URL, "", "body"))
			if err == nil {
				err = retryhttp.ErrorOf(res)
				_ = res.Body.Close()
			}
			if got := holdfast.OutcomeOf(err); err == nil || got != c.outcome {
				t.Errorf("%v is %v, want %v", err, got, c.outcome)
			}
		})
	}
}
