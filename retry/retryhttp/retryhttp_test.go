package retryhttp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/retry"
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

const failed, lost = http.StatusBadGateway, 0

// By the method, and for the rest by the key, a request is sent again or not; without a proof the outcome is unknown.
func TestR01WhatIsSentAgain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method, key string
		answers     []int
		sent        int
		outcome     holdfast.Outcome
	}{
		{"GET", "", []int{failed, lost, 200}, 3, holdfast.Applied},
		{"HEAD", "", []int{failed, 200}, 2, holdfast.Applied},
		{"OPTIONS", "", []int{503, 200}, 2, holdfast.Applied},
		{"PUT", "", []int{lost, 200}, 2, holdfast.Applied},
		{"DELETE", "", []int{500, 204}, 2, holdfast.Applied},
		{"POST", "k", []int{failed, lost, 201}, 3, holdfast.Applied},
		{"PATCH", "k", []int{lost, failed, 200}, 3, holdfast.Applied},
		{"POST", "", []int{failed, 201}, 1, holdfast.Unknown},
		{"POST", "", []int{lost, 201}, 1, holdfast.Unknown},
		{"PATCH", "", []int{500, 200}, 1, holdfast.Unknown},
		{"PATCH", "", []int{lost, 200}, 1, holdfast.Unknown},
		{"LINK", "", []int{failed, 200}, 1, holdfast.Unknown},
		{"POST", "", []int{429, 201}, 1, holdfast.NotApplied},
		{"POST", "k", []int{429, 201}, 2, holdfast.Applied},
		{"POST", "k", []int{402, 201}, 1, holdfast.NotApplied},
		{"POST", "k", []int{422, 201}, 1, holdfast.NotApplied},
		{"GET", "", []int{404, 200}, 1, holdfast.NotApplied},
		{"GET", "", []int{501, 200}, 1, holdfast.Unknown},
		{"POST", "k", []int{lost, 402}, 2, holdfast.Unknown}, // the first may have charged
		{"POST", "k", []int{failed, failed, failed, 201}, 3, holdfast.Unknown},
	} {
		t.Run(fmt.Sprint(c.method, c.key, c.answers), func(t *testing.T) {
			t.Parallel()
			s := serve(t, status(c.answers...))
			res, err := newClient(t, retryhttp.Options{}).Do(request(t, c.method, s.URL, c.key, "body"))
			if err == nil {
				defer func() { _ = res.Body.Close() }()
				if err = retryhttp.ErrorOf(res); err == nil && c.outcome != holdfast.Applied {
					t.Errorf("the response %d is said to be good", res.StatusCode)
				}
				if text, readErr := io.ReadAll(res.Body); readErr != nil || c.method != "HEAD" && res.StatusCode != 204 && len(text) == 0 {
					t.Errorf("the last response cannot be read: %q, %v", text, readErr)
				}
			}
			if got := holdfast.OutcomeOf(err); got != c.outcome && c.outcome != holdfast.Applied || c.outcome == holdfast.Applied && err != nil {
				t.Errorf("the outcome is %v (%v), want %v", got, err, c.outcome)
			}
			got := s.requests()
			if len(got) != c.sent {
				t.Errorf("it was sent %d times, want %d", len(got), c.sent)
			}
			for _, g := range got {
				if g.key != c.key || g.method != c.method || g.body != "body" {
					t.Errorf("the server got %+v", g)
				}
			}
		})
	}
}

func TestR17TheReasonIsTold(t *testing.T) {
	t.Parallel()
	for _, answer := range []int{failed, lost} {
		s := serve(t, status(answer))
		res, err := newClient(t, retryhttp.Options{}).Do(request(t, "POST", s.URL, "", "body"))
		if err == nil {
			err = retryhttp.ErrorOf(res)
			_ = res.Body.Close()
		}
		var stopped *retry.Error
		if !errors.As(err, &stopped) || !errors.Is(err, retryhttp.ErrNoKey) || stopped.Attempts != 1 {
			t.Errorf("got %v", err)
		}
		if !strings.Contains(err.Error(), "not retried: POST without Idempotency-Key") {
			t.Errorf("the text is %q", err)
		}
	}
}

// A connection that was refused has sent nothing: also a POST without a key may be tried again.
func TestR20DialsAreTriedAgain(t *testing.T) {
	t.Parallel()
	s := serve(t, status(201))
	dials := 0
	below := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		if dials++; dials < 3 {
			return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("connection refused")}
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}}
	defer below.CloseIdleConnections()
	res, err := (&http.Client{Transport: retryhttp.New(below, quick(retryhttp.Options{}))}).Do(request(t, "POST", s.URL, "", "body"))
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if dials != 3 || len(s.requests()) != 1 {
		t.Errorf("%d dials, and %d requests", dials, len(s.requests()))
	}
}

// A transport that sent the request and then failed to dial for something else has proved nothing.
func TestAnErrorOfDialingIsNoProof(t *testing.T) {
	t.Parallel()
	sent := 0
	below := roundTripper(func(*http.Request) (*http.Response, error) {
		sent++
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	})
	_, err := (&http.Client{Transport: retryhttp.New(below, quick(retryhttp.Options{}))}).Do(request(t, "POST", "http://localhost", "", "body"))
	if sent != 1 || holdfast.OutcomeOf(err) != holdfast.Unknown {
		t.Errorf("sent %d times: %v", sent, err)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

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

// The request is the caller's: neither its header nor its context changes, and every attempt carries the correlation ID.
func TestTheRequestIsLeftAlone(t *testing.T) {
	t.Parallel()
	s := serve(t, status(503, lost, 200))
	ctx := holdfast.WithCorrelationID(t.Context(), "c-1")
	r, err := http.NewRequestWithContext(ctx, "GET", s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	before := r.Header.Clone()
	res, err := newClient(t, retryhttp.Options{}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if fmt.Sprint(r.Header) != fmt.Sprint(before) || r.Context() != ctx {
		t.Errorf("the request has %v", r.Header)
	}
	if len(s.requests()) != 3 {
		t.Errorf("sent %d times", len(s.requests()))
	}
	for _, g := range s.requests() {
		if g.correlation != "c-1" {
			t.Errorf("the server got %+v", g)
		}
	}
}

func TestEnsureKey(t *testing.T) {
	t.Parallel()
	r := request(t, "POST", "http://localhost", "", "")
	key := retryhttp.EnsureKey(r)
	if key == "" || retryhttp.EnsureKey(r) != key || r.Header.Get("Idempotency-Key") != key {
		t.Errorf("the keys are %q and %q", key, r.Header.Get("Idempotency-Key"))
	}
	if other := retryhttp.EnsureKey(request(t, "POST", "http://localhost", "", "")); other == key {
		t.Error("two requests have one key")
	}
	if kept := retryhttp.EnsureKey(request(t, "POST", "http://localhost", "mine", "")); kept != "mine" {
		t.Errorf("the caller's key became %q", kept)
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

// A server that does not answer is given up by the attempt, and asked again.
func TestAttemptTimeout(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	s := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
		if n == 1 {
			select {
			case <-release:
			case <-r.Context().Done():
			}
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	defer close(release)
	client := newClient(t, retryhttp.Options{Retry: retry.Options{AttemptTimeout: 300 * time.Millisecond}})
	res, err := client.Do(request(t, "GET", s.URL, "", ""))
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if n := len(s.requests()); n != 2 {
		t.Errorf("sent %d times", n)
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

// Nothing leaves while rows are locked.
func TestRowLocks(t *testing.T) {
	t.Parallel()
	s := serve(t, status(200))
	scope := &holdfast.LockScope{}
	ctx := holdfast.WithLockScope(t.Context(), scope)
	scope.Hold("account", nil)
	r, err := http.NewRequestWithContext(ctx, "GET", s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = newClient(t, retryhttp.Options{}).Do(r)
	if !errors.Is(err, holdfast.ErrLockHeld) || len(s.requests()) != 0 {
		t.Errorf("got %v after %d requests", err, len(s.requests()))
	}
}

// Within the attempt of another call, a request is sent once.
func TestNested(t *testing.T) {
	t.Parallel()
	s := serve(t, status(503))
	client := newClient(t, retryhttp.Options{})
	p := retry.New(&retry.Options{BaseDelay: time.Microsecond, Attempts: 4})
	err := retry.Run(t.Context(), p, retry.Read, func(ctx context.Context, _ retry.Attempt) error {
		r, err := http.NewRequestWithContext(ctx, "GET", s.URL, nil)
		if err != nil {
			return err
		}
		res, err := client.Do(r)
		if err != nil {
			return err
		}
		defer func() { _ = res.Body.Close() }()
		return retryhttp.ErrorOf(res)
	})
	if err == nil || len(s.requests()) != 4 {
		t.Errorf("4 attempts sent %d requests: %v", len(s.requests()), err)
	}
}

func TestR02RetryAfterIsHeededAndClamped(t *testing.T) {
	t.Parallel()
	s := serve(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n == 1 {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	})
	begun := time.Now()
	res, err := newClient(t, retryhttp.Options{}).Do(request(t, "GET", s.URL, "", ""))
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK || time.Since(begun) < 20*time.Millisecond {
		t.Errorf("got %d after %v, and Options.MaxDelay is 20 ms", res.StatusCode, time.Since(begun))
	}
}

// R18: net/http sends a request with a key once more by itself, when a connection that was kept dies under it. All sends have one key.
func TestR18EverySendHasTheSameKey(t *testing.T) {
	t.Parallel()
	s := serve(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n == 2 { // the connection of the first, used again
			hangUp(w)
		}
	})
	client := newClient(t, retryhttp.Options{})
	for _, key := range []string{"first", "second"} {
		res, err := client.Do(request(t, "POST", s.URL, key, "body"))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
	}
	got := s.requests()
	if len(got) != 3 {
		t.Fatalf("3 sends were expected: %+v", got)
	}
	for _, g := range got[1:] {
		if g.key != "second" || g.body != "body" {
			t.Errorf("the server got %+v", g)
		}
	}
}

// A request that succeeds at once costs one allocation, and two where the proof of a dial may be needed.
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
		if got > 2 {
			t.Errorf("%s: %v allocations", method, got)
		}
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, seed := range []string{"", "0", "120", "-1", "1.5", "99999999999999999999", "Fri, 31 Dec 1999 23:59:59 GMT", "Wed, 21 Oct 2115 07:28:00 GMT", " 7 ", "\x00"} {
		f.Add(seed, "Wed, 21 Oct 2015 07:28:00 GMT")
	}
	f.Fuzz(func(t *testing.T, value, date string) {
		d, ok := retryhttp.RetryAfter(http.Header{"Retry-After": {value}, "Date": {date}})
		if d < 0 || !ok && d != 0 {
			t.Errorf("%q at %q is %v, %v", value, date, d, ok)
		}
	})
}
