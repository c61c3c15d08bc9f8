package retryhttp_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/retry"
	"github.com/holdfast-go/holdfast/retry/retryhttp"
)

// The bytes of a body that has no GetBody are kept as far as they fit.
func TestR10R11Bodies(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 1<<20)
	for _, c := range []struct {
		name string
		body func() io.Reader
		max  int
		sent int
		err  error
	}{
		{"GetBody", func() io.Reader { return strings.NewReader(large) }, 0, 2, nil},
		{"a stream that fits", func() io.Reader { return io.MultiReader(strings.NewReader(large)) }, 1 << 20, 2, nil},
		{"a stream that does not", func() io.Reader { return io.MultiReader(strings.NewReader(large)) }, 0, 1, retryhttp.ErrBody},
		{"a stream, and nothing is kept", func() io.Reader { return io.MultiReader(strings.NewReader("x")) }, -1, 1, retryhttp.ErrBody},
		{"none", func() io.Reader { return nil }, 0, 2, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, status(503, 201))
			r, err := http.NewRequestWithContext(t.Context(), "POST", s.URL, c.body())
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Idempotency-Key", "k")
			res, err := newClient(t, retryhttp.Options{MaxBody: c.max}).Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = res.Body.Close() }()
			if err := retryhttp.ErrorOf(res); !errors.Is(err, c.err) {
				t.Errorf("got %v, want %v", err, c.err)
			}
			got := s.requests()
			if len(got) != c.sent {
				t.Fatalf("sent %d times, want %d", len(got), c.sent)
			}
			for _, g := range got {
				if g.body != got[0].body {
					t.Error("the body was another the second time")
				}
			}
		})
	}
}

// The time of an attempt ends with the header: a body may take longer.
func TestR09TheBodyOutlivesTheAttempt(t *testing.T) {
	t.Parallel()
	goOn := make(chan struct{})
	s := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "first ")
		_ = http.NewResponseController(w).Flush()
		<-goOn
		_, _ = io.WriteString(w, "last")
	})
	client := newClient(t, retryhttp.Options{Retry: retry.Options{AttemptTimeout: 500 * time.Millisecond}})
	res, err := client.Do(request(t, "GET", s.URL, "", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	time.AfterFunc(time.Second, func() { close(goOn) })
	text, err := io.ReadAll(res.Body)
	if err != nil || string(text) != "first last" {
		t.Errorf("read %q, %v", text, err)
	}
}

// Failed responses are drained, so that all attempts use one connection.
func TestConnectionsAreUsedAgain(t *testing.T) {
	t.Parallel()
	s := serve(t, status(503, 503, 200))
	dials := 0
	below := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		dials++
		return new(net.Dialer).DialContext(ctx, network, addr)
	}}
	defer below.CloseIdleConnections()
	res, err := (&http.Client{Transport: retryhttp.New(below, quick(retryhttp.Options{}))}).Do(request(t, "GET", s.URL, "", ""))
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if dials != 1 || len(s.requests()) != 3 {
		t.Errorf("%d dials for %d requests", dials, len(s.requests()))
	}
}

// A failed response without end is not read to it.
func TestEndlessBodies(t *testing.T) {
	t.Parallel()
	s := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
		if n > 1 {
			return
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		for r.Context().Err() == nil {
			if _, err := w.Write(bytes.Repeat([]byte("x"), 1<<16)); err != nil {
				return
			}
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
}

// tracked counts those that are not closed.
type tracked struct {
	io.Reader

	open *atomic.Int64
	once sync.Once
}

func (b *tracked) Close() error {
	b.once.Do(func() { b.open.Add(-1) })
	return nil
}

// However a call ends, each body is closed: those of failed responses by the transport, the last one by the caller, and the
// caller's own with the last attempt.
func TestEveryBodyIsClosed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		o      retryhttp.Options
		cancel time.Duration
		answer func(n int) (int, error)
	}{
		"succeeds":     {answer: func(n int) (int, error) { return []int{503, 500, 200}[n-1], nil }},
		"is used up":   {answer: func(int) (int, error) { return 503, nil }},
		"is refused":   {answer: func(int) (int, error) { return 402, nil }},
		"is lost":      {answer: func(int) (int, error) { return 0, io.ErrUnexpectedEOF }},
		"is lost then": {answer: func(n int) (int, error) { return 503, []error{nil, nil, io.EOF}[n-1] }},
		"is left":      {cancel: 50 * time.Millisecond, answer: func(int) (int, error) { return 503, nil }, o: retryhttp.Options{Retry: retry.Options{BaseDelay: time.Hour, MaxDelay: time.Hour}}},
		"is late":      {answer: func(int) (int, error) { time.Sleep(2 * time.Second); return 200, nil }, o: retryhttp.Options{Retry: retry.Options{AttemptTimeout: time.Second}}},
		"is too long":  {answer: func(int) (int, error) { return 503, nil }, o: retryhttp.Options{MaxBody: -1}},
		"has no key":   {answer: func(int) (int, error) { return 503, nil }, o: retryhttp.Options{KeyHeader: "Another"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var open atomic.Int64
				n := 0
				body := func(text string) *tracked {
					open.Add(1)
					return &tracked{Reader: strings.NewReader(text), open: &open}
				}
				below := roundTripper(func(r *http.Request) (*http.Response, error) {
					n++
					_, _ = io.Copy(io.Discard, r.Body)
					_ = r.Body.Close()
					code, err := c.answer(n)
					if err != nil {
						return nil, err
					}
					return &http.Response{StatusCode: code, Body: body("answer"), Request: r}, nil
				})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if c.cancel > 0 {
					time.AfterFunc(c.cancel, cancel)
				}
				r := request(t, "POST", "http://localhost", "k", "").WithContext(ctx)
				r.Body, r.GetBody = body("question"), nil
				res, err := retryhttp.New(below, &c.o).RoundTrip(r)
				if err == nil {
					_ = res.Body.Close()
				}
				if left := open.Load(); left != 0 {
					t.Errorf("%d bodies are open after %d attempts: %v", left, n, err)
				}
			})
		})
	}
}
