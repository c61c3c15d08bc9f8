package retryhttp_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/holdfast-go/holdfast/retry"
	"github.com/holdfast-go/holdfast/retry/retryhttp"
)

// early answers before the body has come, and goes on to take it in.
func early(code int) func(w http.ResponseWriter, r *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		if control.EnableFullDuplex() != nil {
			return
		}
		_, _ = io.ReadFull(r.Body, make([]byte, 5))
		w.WriteHeader(code)
		_ = control.Flush()
		_, _ = io.Copy(io.Discard, r.Body)
	}
}

// An answer does not wait for the rest of a body which the caller may never write.
func TestAnEarlyAnswerDoesNotWaitForTheBody(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method string
		err    error
	}{{"PUT", nil}, {"POST", retryhttp.ErrNoKey}} {
		s := serveRaw(t, early(http.StatusServiceUnavailable), early(http.StatusOK))
		body, write := io.Pipe()
		r, err := http.NewRequestWithContext(t.Context(), c.method, s.URL, body)
		if err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = io.WriteString(write, "first") }()
		guard := time.AfterFunc(20*time.Second, func() { _ = write.CloseWithError(errors.New("nobody answered")) })
		res, err := newClient(t, retryhttp.Options{}).Do(r)
		if err != nil || !guard.Stop() {
			t.Fatalf("%s: waited for the body: %v", c.method, err)
		}
		if err := retryhttp.ErrorOf(res); !errors.Is(err, c.err) {
			t.Errorf("%s: %v", c.method, err)
		}
		_ = res.Body.Close()
		_ = write.Close()
	}
}

// blocks is a body that comes in pieces.
type blocks struct{ left []string }

// Read returns the next.
func (b *blocks) Read(p []byte) (int, error) {
	if len(b.left) == 0 {
		return 0, io.EOF
	}
	n := copy(p, b.left[0])
	b.left = b.left[1:]
	return n, nil
}

// A transport sends on after it has an answer. What it takes from the body then is not lost to the next attempt, which never
// begins in the middle.
func TestWhatIsSentDuringTheDelayIsSentAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var bodies []string
		below := roundTripper(func(r *http.Request) (*http.Response, error) {
			res := &http.Response{StatusCode: http.StatusServiceUnavailable, Body: io.NopCloser(strings.NewReader("")), Header: http.Header{}}
			if bodies == nil {
				first := make([]byte, 10)
				_, _ = io.ReadFull(r.Body, first)
				bodies = append(bodies, string(first))
				go func() {
					_, _ = io.Copy(io.Discard, r.Body)
					_ = r.Body.Close()
				}()
				return res, nil
			}
			all, err := io.ReadAll(r.Body)
			bodies = append(bodies, string(all))
			res.StatusCode = http.StatusOK
			return res, errors.Join(err, r.Body.Close())
		})
		transport := retryhttp.New(below, &retryhttp.Options{MaxBody: 15, Retry: retry.Options{BackOff: func() backoff.BackOff {
			return backoff.NewConstantBackOff(time.Second)
		}}})
		r, err := http.NewRequestWithContext(t.Context(), "PUT", "http://localhost", &blocks{[]string{"0123456789", "abcdefghij", "last"}})
		if err != nil {
			t.Fatal(err)
		}
		res, err := transport.RoundTrip(r)
		if err != nil || retryhttp.ErrorOf(res) != nil {
			t.Fatalf("got %v", err)
		}
		_ = res.Body.Close()
		if len(bodies) != 2 || bodies[1] != "0123456789abcdefghijlast" {
			t.Errorf("sent %q", bodies)
		}
	})
}

// A failed response that does not come is not waited for, also where net/http would unpack it.
func TestStalledBodiesAreNotWaitedFor(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]string{"text": "busy", "gzip": "\x1f\x8b"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
				if n > 1 {
					return
				}
				w.Header().Set("Content-Encoding", name)
				w.WriteHeader(http.StatusServiceUnavailable)
				_, _ = io.WriteString(w, first)
				_ = http.NewResponseController(w).Flush()
				select {
				case <-r.Context().Done():
				case <-time.After(20 * time.Second):
					t.Error("the connection is kept")
				}
			})
			res, err := newClient(t, retryhttp.Options{}).Do(request(t, "GET", s.URL, "", ""))
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			if res.StatusCode != http.StatusOK {
				t.Errorf("got %d", res.StatusCode)
			}
		})
	}
}

// A body that cannot be had again ends it: the last response is there to be read.
func TestAGetBodyThatFailsLeavesTheLastResponse(t *testing.T) {
	t.Parallel()
	s := serve(t, status(http.StatusServiceUnavailable))
	r := request(t, "PUT", s.URL, "", "body")
	gone := errors.New("the file is gone")
	r.GetBody = func() (io.ReadCloser, error) { return nil, gone }
	res, err := newClient(t, retryhttp.Options{}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil || len(text) == 0 || res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("got %d, %q, %v", res.StatusCode, text, err)
	}
	if err := retryhttp.ErrorOf(res); !errors.Is(err, gone) || !errors.Is(err, retryhttp.ErrBody) || len(s.requests()) != 1 {
		t.Errorf("got %v after %d requests", err, len(s.requests()))
	}
}
