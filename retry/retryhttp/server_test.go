package retryhttp_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/retry/retryhttp"
)

// A seen is one request as a server got it.
type seen struct{ method, key, correlation, body string }

// A server does what each request asks, and answers as the test says.
type server struct {
	*httptest.Server

	mu  sync.Mutex // guards got
	got []seen
}

// serve answers the n-th request, from 1, after its effect.
func serve(t *testing.T, answer func(n int, w http.ResponseWriter, r *http.Request)) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.got = append(s.got, seen{r.Method, r.Header.Get("Idempotency-Key"), r.Header.Get("X-Correlation-ID"), string(body)})
		n := len(s.got)
		s.mu.Unlock()
		answer(n, w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) requests() []seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]seen(nil), s.got...)
}

// hangUp loses the reply: the effect has happened.
func hangUp(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		_ = conn.Close()
	}
}

func status(codes ...int) func(int, http.ResponseWriter, *http.Request) {
	return func(n int, w http.ResponseWriter, _ *http.Request) {
		code := codes[min(n, len(codes))-1]
		if code == 0 {
			hangUp(w)
			return
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, http.StatusText(code))
	}
}

// quick has no pauses to speak of.
func quick(o retryhttp.Options) *retryhttp.Options {
	o.Retry.BaseDelay, o.Retry.MaxDelay = time.Microsecond, 20*time.Millisecond
	return &o
}

// newClient has connections of its own.
func newClient(t *testing.T, o retryhttp.Options) *http.Client {
	t.Helper()
	below := &http.Transport{}
	t.Cleanup(below.CloseIdleConnections)
	return &http.Client{Transport: retryhttp.New(below, quick(o))}
}

func request(t *testing.T, method, url, key, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	return r
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// serveRaw lets each request be answered by the next handler, and those beyond by the last.
func serveRaw(t *testing.T, answers ...http.HandlerFunc) *httptest.Server {
	t.Helper()
	var n atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answers[min(int(n.Add(1)), len(answers))-1](w, r)
	}))
	t.Cleanup(s.Close)
	return s
}
