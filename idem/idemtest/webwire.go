package idemtest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/idem/idemhttp"
)

func webWireRules[T any]() []rule[T] {
	return []rule[T]{
		{"HTTPDisconnectUndone", "when the client hangs up, the handler's context ends and what it did is rolled back", webHangUp[T]},
		{"HTTPDisconnectDone", "a handler that answers all the same is committed, and the retry gets its answer", webHangUpDone[T]},
		{"HTTPLinger", "Options.Linger lets the work go on without the client, and no longer than that", webLinger[T]},
		{"HTTPOnTheWire", "the bytes of an answer and its replay are those that net/http would send: HEAD, lengths, trailers, no 1xx", webOnTheWire[T]},
	}
}

// start serves w on a port.
func (w *web[T]) start() *httptest.Server {
	server := httptest.NewServer(w.handler)
	w.Cleanup(server.Close)
	return server
}

// send makes a real request.
func (w *web[T]) send(ctx context.Context, url, key, body string, edits ...func(*http.Request)) (*http.Response, string, error) {
	w.Helper()
	r := w.request(key, body, edits...)
	out, err := http.NewRequestWithContext(ctx, r.Method, url+r.URL.RequestURI(), strings.NewReader(body))
	w.must(err)
	out.Header = r.Header
	res, err := http.DefaultClient.Do(out)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	return res, string(text), err
}

// hangUp sends a request and hangs up while the handler, which closes inside, is at work. done is closed when the server
// is through with it.
func (w *web[T]) hangUp(key, body string, inside chan struct{}) (done chan struct{}) {
	w.Helper()
	done = make(chan struct{})
	inner := w.handler
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		defer close(done)
		inner.ServeHTTP(rw, r)
	}))
	w.Cleanup(server.Close)
	ctx, cancel := context.WithCancel(w.ctx)
	go func() {
		<-inside
		cancel()
	}()
	if _, _, err := w.send(ctx, server.URL, key, body); err == nil {
		w.Fatal("the client got an answer")
	}
	return done
}

func webHangUp[T any](s *suite[T]) {
	inside, first := make(chan struct{}), true
	w := s.serve(nil, nil, func(_ http.ResponseWriter, r *http.Request, t T) error {
		if err := s.applyBody(r, t); err != nil || !first {
			return err
		}
		first = false
		close(inside)
		select {
		case <-r.Context().Done():
		case <-s.ctx.Done(): // a failure, which must not hang
		}
		return context.Cause(r.Context())
	})
	<-w.hangUp("k", "hang up", inside)
	s.wantEffects("hang up", 0)
	w.answer("retry", w.post("k", "hang up"), http.StatusOK, "", false)
	s.wantEffects("hang up", 1)
}

func webHangUpDone[T any](s *suite[T]) {
	inside := make(chan struct{})
	w := s.serve(nil, nil, func(rw http.ResponseWriter, r *http.Request, t T) error {
		if err := s.applyBody(r, t); err != nil {
			return err
		}
		close(inside)
		select {
		case <-r.Context().Done():
		case <-s.ctx.Done(): // a failure, which must not hang
		}
		_, err := io.WriteString(rw, "done")
		return err
	})
	<-w.hangUp("k", "hang up", inside)
	w.answer("retry", w.post("k", "hang up"), http.StatusOK, "done", true)
	s.count(w.runs, 1)
	s.wantEffects("hang up", 1)
}

func webLinger[T any](s *suite[T]) {
	inside, gone := make(chan struct{}), make(chan struct{})
	w := s.serve(nil, &idemhttp.Options{Linger: time.Hour}, func(_ http.ResponseWriter, r *http.Request, t T) error {
		close(inside)
		<-gone
		return s.applyBody(r, t) // the statement needs a context that has not ended
	})
	inner := w.handler
	w.handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		context.AfterFunc(r.Context(), func() { close(gone) })
		inner.ServeHTTP(rw, r)
	})
	<-w.hangUp("k", "linger", inside)
	w.handler = inner
	w.answer("retry", w.post("k", "linger"), http.StatusOK, "", true)
	s.wantEffects("linger", 1)

	inside = make(chan struct{})
	w = s.serve(nil, &idemhttp.Options{Linger: time.Millisecond}, func(_ http.ResponseWriter, r *http.Request, t T) error {
		close(inside)
		select {
		case <-r.Context().Done():
		case <-s.ctx.Done(): // a failure, which must not hang
		}
		return s.applyBody(r, t)
	})
	<-w.hangUp("short", "short", inside)
	s.wantEffects("short", 0)
}

func webOnTheWire[T any](s *suite[T]) {
	w := s.serve(nil, &idemhttp.Options{Methods: []string{"POST", "HEAD"}}, func(rw http.ResponseWriter, r *http.Request, _ T) error {
		control := http.NewResponseController(rw)
		deadline := time.Now().Add(time.Minute)
		if err := errors.Join(control.SetReadDeadline(deadline), control.SetWriteDeadline(deadline)); err != nil {
			return err
		}
		rw.Header().Set("Link", "</early>")
		rw.WriteHeader(http.StatusEarlyHints)
		if r.URL.Path == "/silent" {
			return nil
		}
		rw.Header().Set("Content-Length", "1") // which is wrong
		size := 10
		if r.URL.Path == "/untyped" {
			rw.Header()["Content-Type"] = nil
		}
		if r.URL.Path == "/trailers" {
			rw.Header().Set("Trailer", "X-Sum")
			size = 5000
		}
		_, err := io.WriteString(rw, strings.Repeat("x", size))
		rw.Header().Set("X-Sum", "sum")
		rw.Header().Set(http.TrailerPrefix+"X-Other", "other")
		if r.URL.Path != "/trailers" {
			rw.Header().Del(http.TrailerPrefix + "X-Other")
		}
		return err
	})
	server := w.start()
	early := 0
	ctx := httptrace.WithClientTrace(s.ctx, &httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error {
		early++
		return nil
	}})
	for _, c := range []struct {
		method, path string
		size         int
	}{{"POST", "/plain", 10}, {"HEAD", "/plain", 10}, {"POST", "/trailers", 5000}, {"POST", "/untyped", 10}, {"HEAD", "/silent", -1}} {
		for i := range 2 {
			what := c.method + c.path + " " + strconv.Itoa(i)
			res, body, err := w.send(ctx, server.URL, c.method+c.path, "", target(c.method, c.path))
			s.must(err)
			want := ""
			if c.method != "HEAD" {
				want = strings.Repeat("x", c.size)
			}
			if body != want || res.Header.Get("Link") != "</early>" || (res.Header.Get(marker) == "true") != (i > 0) {
				s.Errorf("%s: got %d bytes, %v", what, len(body), res.Header)
			}
			if (res.Header.Get("Content-Type") == "") != (c.path == "/untyped" || c.path == "/silent") {
				s.Errorf("%s: got the content type %q", what, res.Header.Get("Content-Type"))
			}
			trailing := c.path == "/trailers" && i == 0
			if (res.Trailer.Get("X-Sum") == "sum") != trailing || (res.Trailer.Get("X-Other") == "other") != trailing || res.Header.Get("X-Sum") != "" {
				s.Errorf("%s: got the trailers %v", what, res.Trailer)
			}
			if !trailing && res.ContentLength != int64(c.size) {
				s.Errorf("%s: the length is %d", what, res.ContentLength)
			}
		}
	}
	if early > 0 {
		s.Errorf("%d responses of 1xx were sent", early)
	}
	s.count(w.runs, 5)
}
