package idemtest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/idem/idemhttp"
)

// webRules are what package idemhttp promises.
func webRules[T any]() []rule[T] {
	var rules []rule[T]
	rules = append(rules, webKeyRules[T]()...)
	rules = append(rules, webScopeRules[T]()...)
	rules = append(rules, webStatusRules[T]()...)
	rules = append(rules, webResponseRules[T]()...)
	rules = append(rules, webWireRules[T]()...)
	rules = append(rules, webFailureRules[T]()...)
	return append(rules, webHandlerRules[T]()...)
}

// A web is a service behind the middleware.
type web[T any] struct {
	*suite[T]
	m       *idemhttp.Middleware[T]
	runs    *counter
	handler http.Handler
}

// tenantOf is the authentication of the service.
func tenantOf(r *http.Request) (string, error) {
	if tenant := r.Header.Get("X-Tenant"); tenant != "stranger" {
		return tenant, nil
	}
	return "", errors.New("a stranger")
}

// silent are options of a service whose operator need not hear of what a rule does to it.
func silent() *idemhttp.Options {
	return &idemhttp.Options{ErrorLog: slog.New(slog.DiscardHandler)}
}

// serve returns a service whose handler is fn, or else applies the body of the request as an effect and answers 201.
func (s *suite[T]) serve(ko *idem.Options, o *idemhttp.Options, fn func(w http.ResponseWriter, r *http.Request, t T) error) *web[T] {
	options := silent()
	if o != nil {
		*options = *o
		options.ErrorLog = cmp.Or(options.ErrorLog, silent().ErrorLog)
	}
	w := &web[T]{suite: s, m: idemhttp.New(idem.New(s.DB, ko), tenantOf, options), runs: &counter{}}
	s.must(w.m.Check(s.ctx))
	w.handler = w.m.Handler(func(rw http.ResponseWriter, r *http.Request, t T) error {
		w.runs.add()
		if fn != nil {
			return fn(rw, r, t)
		}
		if err := w.applyBody(r, t); err != nil {
			return err
		}
		rw.WriteHeader(http.StatusCreated)
		_, err := io.WriteString(rw, "made")
		return err
	})
	return w
}

// applyBody writes the effect that the request asks for.
func (s *suite[T]) applyBody(r *http.Request, t T) error {
	name, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	return s.apply(r.Context(), t, string(name))
}

// request is a POST of tenant "a".
func (s *suite[T]) request(key, body string, edits ...func(r *http.Request)) *http.Request {
	r := httptest.NewRequestWithContext(s.ctx, http.MethodPost, "/effects", strings.NewReader(body))
	r.Header.Set("Idempotency-Key", key)
	r.Header.Set("X-Tenant", "a")
	for _, edit := range edits {
		edit(r)
	}
	return r
}

func (w *web[T]) post(key, body string, edits ...func(r *http.Request)) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	w.handler.ServeHTTP(rec, w.request(key, body, edits...))
	return rec
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header[http.CanonicalHeaderKey(name)] = []string{value} }
}

func target(method, uri string) func(*http.Request) {
	return func(r *http.Request) {
		u := httptest.NewRequestWithContext(context.Background(), method, uri, nil).URL
		r.Method, r.URL = method, u
	}
}

const marker = "Idempotency-Replayed"

// answer checks status and body, and whether it is a replay.
func (w *web[T]) answer(what string, rec *httptest.ResponseRecorder, status int, body string, replayed bool) {
	w.Helper()
	if rec.Code != status || rec.Body.String() != body || (rec.Header().Get(marker) == "true") != replayed {
		w.Fatalf("%s: got %d %.200q with %v, want %d %.200q, replayed %v", what, rec.Code, rec.Body, rec.Header(), status, body, replayed)
	}
}

// problem checks a refusal.
func (w *web[T]) problem(what string, rec *httptest.ResponseRecorder, status int, code string) {
	w.Helper()
	var got struct {
		Type, Title, Detail, Code string
		Status                    int
	}
	err := json.Unmarshal(rec.Body.Bytes(), &got)
	if err != nil || rec.Code != status || got.Status != status || got.Code != code || got.Type != "about:blank" ||
		got.Title != http.StatusText(status) || got.Detail == "" || rec.Header().Get("Content-Type") != "application/problem+json" ||
		rec.Header().Get(marker) != "" {
		w.Fatalf("%s: got %d %s with %v, want %d %s", what, rec.Code, rec.Body, rec.Header(), status, code)
	}
	if again := rec.Header().Get("Retry-After"); (again != "") != (status == http.StatusServiceUnavailable || code == idemhttp.CodeInFlight) || again == "0" {
		w.Fatalf("%s: Retry-After is %q", what, again)
	}
}
