package idemtest

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/idem/idemhttp"
)

func webResponseRules[T any]() []rule[T] {
	return []rule[T]{
		{"HTTPHeaders", "kept headers are replayed; cookies, credentials and rate limits are not, even if they are listed", webHeaders[T]},
		{"HTTPOversize", "a response too large to keep goes to the first caller, and is never made again", webOversize[T]},
		{"HTTPTooLarge", "a response above the limit is given up, and its work stands", webTooLarge[T]},
		{"HTTPStream", "a response that is flushed in pieces is replayed whole", webStream[T]},
		{"HTTPHijack", "a handler that takes the connection gets an error, and an upgrade is refused", webHijack[T]},
		{"HTTPNoBody", "204, 304 and responses without a content type are replayed as they were", webNoBody[T]},
		{"HTTPGzip", "a compressed response is replayed with its encoding", webGzip[T]},
		{"HTTPOutside", "headers of a middleware outside are there each time, and can be dropped", webOutside[T]},
	}
}

func webHeaders[T any](s *suite[T]) {
	never := []string{
		"Set-Cookie", "Authorization", "Proxy-Authorization", "WWW-Authenticate", "Proxy-Authenticate", "Authentication-Info", "Connection",
		"Keep-Alive", "Te", "Trailer", "Upgrade", "Date", "X-RateLimit-Remaining", "RateLimit", "X-Rate-Limit-Reset", "Set-Cookie2", "Cookie",
	}
	kept := []string{"Location", "ETag", "Last-Modified", "Link", "Content-Language", "Content-Disposition", "Vary", "X-Kept"}
	w := s.serve(nil, &idemhttp.Options{Headers: append([]string{"x-kept"}, never...), ReplayHeader: "X-Again"}, func(rw http.ResponseWriter, _ *http.Request, _ T) error {
		for _, name := range append(append([]string{"X-Other"}, never...), kept...) {
			rw.Header().Set(name, "v")
		}
		return nil
	})
	first, second := w.post("k", ""), w.post("k", "")
	for _, name := range append(append([]string{"X-Other"}, never...), kept...) {
		if first.Header().Get(name) != "v" {
			s.Errorf("the first answer has no %s", name)
		}
	}
	for _, name := range kept {
		if second.Header().Get(name) != "v" {
			s.Errorf("the replay has no %s", name)
		}
	}
	for _, name := range append(never, "X-Other") {
		if second.Header().Get(name) != "" {
			s.Errorf("the replay has %s", name)
		}
	}
	if first.Header().Get("X-Again") != "" || second.Header().Get("X-Again") != "true" || second.Header().Get(marker) != "" {
		s.Errorf("the marks are %v and %v", first.Header(), second.Header())
	}
	s.count(w.runs, 1)
}

func webOversize[T any](s *suite[T]) {
	body := strings.Repeat("x", 2048)
	w := s.serve(&idem.Options{MaxBody: 1024}, nil, func(rw http.ResponseWriter, r *http.Request, t T) error {
		if r.URL.RawQuery == "fail" {
			rw.WriteHeader(http.StatusPaymentRequired)
		}
		_, err := io.WriteString(rw, body)
		return errors.Join(err, s.applyBody(r, t))
	})
	w.answer("first", w.post("k", "large"), http.StatusOK, body, false)
	w.answer("first failure", w.post("fail", "failed", target("POST", "/?fail")), http.StatusPaymentRequired, body, false)
	for range 2 {
		w.problem("repetition", w.post("k", "large"), http.StatusConflict, idemhttp.CodeNotRetained)
		w.problem("repetition of the failure", w.post("fail", "failed", target("POST", "/?fail")), http.StatusConflict, idemhttp.CodeNotRetained)
	}
	s.count(w.runs, 2)
	s.wantEffects("large", 1)
	s.wantEffects("failed", 0)
}

func webTooLarge[T any](s *suite[T]) {
	status := http.StatusOK
	w := s.serve(nil, &idemhttp.Options{MaxResponse: 1000}, func(rw http.ResponseWriter, r *http.Request, t T) error {
		rw.WriteHeader(status)
		for range 100 {
			if n, err := io.WriteString(rw, strings.Repeat("x", 100)); n != 100 || err != nil {
				return fmt.Errorf("wrote %d: %w", n, err)
			}
		}
		return s.applyBody(r, t)
	})
	for range 2 {
		w.problem("too large", w.post("k", "too large"), http.StatusConflict, idemhttp.CodeNotRetained)
	}
	s.count(w.runs, 1)
	s.wantEffects("too large", 1)
	status = http.StatusBadGateway
	for range 2 { // it was undone, so it is not said to be done
		w.problem("too large and undone", w.post("fail", "undone"), http.StatusInternalServerError, idemhttp.CodeRequestFailed)
	}
	s.count(w.runs, 3)
	s.wantEffects("undone", 0)
}

func webStream[T any](s *suite[T]) {
	var sent *httptest.ResponseRecorder
	w := s.serve(nil, nil, func(rw http.ResponseWriter, _ *http.Request, _ T) error {
		for i := range 3 {
			_, _ = fmt.Fprintf(rw, "chunk %d\n", i)
			if err := http.NewResponseController(rw).Flush(); err != nil {
				return err
			}
			rw.Header().Set("Location", "/late") // after the headers are settled
		}
		if sent.Body.Len() > 0 || sent.Flushed {
			return errors.New("something was sent before the commit")
		}
		return nil
	})
	for i := range 2 {
		sent = httptest.NewRecorder()
		w.handler.ServeHTTP(sent, w.request("k", ""))
		w.answer("stream", sent, http.StatusOK, "chunk 0\nchunk 1\nchunk 2\n", i > 0)
		if sent.Header().Get("Location") != "" {
			s.Error("a header was changed after the flush")
		}
	}
	s.count(w.runs, 1)
}

func webHijack[T any](s *suite[T]) {
	w := s.serve(nil, nil, func(rw http.ResponseWriter, r *http.Request, t T) error {
		_, _, err := http.NewResponseController(rw).Hijack()
		if !errors.Is(err, idemhttp.ErrHijack) || !errors.Is(err, http.ErrNotSupported) {
			s.Errorf("Hijack: got %v", err)
		}
		if err := http.NewResponseController(rw).SetWriteDeadline(time.Now().Add(time.Minute)); !errors.Is(err, http.ErrNotSupported) {
			s.Errorf("SetWriteDeadline on a recorder: got %v", err)
		}
		rw.WriteHeader(http.StatusSwitchingProtocols)
		return s.applyBody(r, t)
	})
	for range 2 {
		w.problem("upgrade", w.post("k", "hijack"), http.StatusInternalServerError, idemhttp.CodeRequestFailed)
	}
	s.wantEffects("hijack", 0)
}

func webNoBody[T any](s *suite[T]) {
	w := s.serve(nil, nil, func(rw http.ResponseWriter, r *http.Request, _ T) error {
		switch r.URL.Path {
		case "/204":
			rw.WriteHeader(http.StatusNoContent)
		case "/304":
			rw.WriteHeader(http.StatusNotModified)
		case "/untyped":
			rw.Header()["Content-Type"] = nil
			_, err := io.WriteString(rw, "<html>")
			return err
		case "/sniffed":
			_, err := io.WriteString(rw, "<html>")
			return err
		case "/nothing":
			return nil
		}
		if _, err := rw.Write([]byte("x")); !errors.Is(err, http.ErrBodyNotAllowed) {
			return fmt.Errorf("a body was accepted: %w", err)
		}
		return nil
	})
	for path, want := range map[string]struct {
		status      int
		body, type_ string
	}{
		"/204": {204, "", ""}, "/304": {304, "", ""}, "/nothing": {200, "", ""},
		"/untyped": {200, "<html>", ""}, "/sniffed": {200, "<html>", "text/html; charset=utf-8"},
	} {
		for i := range 2 {
			rec := w.post(path, "", target("POST", path))
			w.answer(path, rec, want.status, want.body, i > 0)
			if got := rec.Header().Get("Content-Type"); got != want.type_ {
				s.Errorf("%s, call %d: got the content type %q", path, i, got)
			}
		}
	}
}

func webGzip[T any](s *suite[T]) {
	w := s.serve(nil, nil, func(rw http.ResponseWriter, _ *http.Request, _ T) error {
		rw.Header().Set("Content-Encoding", "gzip")
		rw.Header().Set("Vary", "Accept-Encoding")
		packer := gzip.NewWriter(rw)
		_, _ = io.WriteString(packer, "plain text")
		return packer.Close()
	})
	first := w.post("k", "").Body.Bytes()
	second := w.post("k", "")
	if h := second.Header(); !bytes.Equal(second.Body.Bytes(), first) || h.Get("Content-Encoding") != "gzip" || h.Get("Vary") != "Accept-Encoding" || h.Get(marker) == "" {
		s.Fatalf("got %v", h)
	}
	unpacker, err := gzip.NewReader(second.Body)
	s.must(err)
	text, err := io.ReadAll(unpacker)
	if err != nil || string(text) != "plain text" {
		s.Fatalf("got %q, %v", text, err)
	}
}

func webOutside[T any](s *suite[T]) {
	w := s.serve(nil, nil, func(rw http.ResponseWriter, _ *http.Request, _ T) error {
		rw.Header().Del("X-Dropped")
		rw.Header().Set("Vary", rw.Header().Get("Vary")+", Accept")
		return nil
	})
	inner := w.handler
	w.handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("X-Request-Id", "id")
		rw.Header().Set("X-Dropped", "v")
		rw.Header().Set("Vary", "Origin")
		inner.ServeHTTP(rw, r)
	})
	first, second := w.post("k", "").Header(), w.post("k", "").Header()
	if first.Get("X-Request-Id") != "id" || second.Get("X-Request-Id") != "id" || first.Get("X-Dropped") != "" ||
		first.Get("Vary") != "Origin, Accept" || second.Get("Vary") != "Origin, Accept" {
		s.Fatalf("got %v and %v", first, second)
	}
	if h := w.post("", "").Header(); h.Get("X-Request-Id") != "id" {
		s.Fatalf("a refusal has %v", h)
	}
}
