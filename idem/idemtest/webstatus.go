package idemtest

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/idem/idemhttp"
)

func webStatusRules[T any]() []rule[T] {
	return []rule[T]{
		{"HTTPStatuses", "2xx, 3xx and final 4xx are kept, the latter without their writes; the others roll back and free the key", webStatuses[T]},
		{"HTTPTransientThenDone", "a 503 is not replayed: the retry runs, and its answer is", webTransient[T]},
		{"HTTPRelease", "statuses that the options release free the key", webRelease[T]},
		{"HTTPReturnedFailure", "a failure that the handler returns is its response", webReturnedFailure[T]},
		{"HTTPReturnedError", "an error that the handler returns rolls back, frees the key, and is not shown to the client", webReturnedError[T]},
	}
}

func webStatuses[T any](s *suite[T]) {
	w := s.serve(nil, nil, func(rw http.ResponseWriter, r *http.Request, t T) error {
		if err := s.applyBody(r, t); err != nil {
			return err
		}
		var status int
		if _, err := fmt.Sscanf(r.URL.Query().Get("status"), "%d", &status); err != nil {
			return err
		}
		http.Error(rw, "text", status)
		return nil
	})
	for status, want := range map[int]struct {
		kept    bool
		effects int
	}{
		200: {true, 1}, 201: {true, 1}, 202: {true, 1}, 299: {true, 1}, 301: {true, 1}, 303: {true, 1}, 307: {true, 1},
		400: {true, 0}, 401: {true, 0}, 402: {true, 0}, 403: {true, 0}, 404: {true, 0}, 410: {true, 0}, 422: {true, 0}, 499: {true, 0},
		408: {false, 0}, 409: {false, 0}, 421: {false, 0}, 423: {false, 0}, 425: {false, 0}, 429: {false, 0},
		500: {false, 0}, 501: {false, 0}, 502: {false, 0}, 503: {false, 0}, 504: {false, 0}, 599: {false, 0},
	} {
		name, before := fmt.Sprint(status), w.runs.get()
		for i := range 2 {
			rec := w.post(name, name, target("POST", "/?status="+name))
			w.answer(name, rec, status, "text\n", want.kept && i == 1)
			if rec.Header().Get("Content-Type") != "text/plain; charset=utf-8" {
				s.Fatalf("%d: got %v", status, rec.Header())
			}
		}
		if ran := w.runs.get() - before; ran != map[bool]int{true: 1, false: 2}[want.kept] {
			s.Fatalf("%d: ran %d times", status, ran)
		}
		s.wantEffects(name, want.effects)
	}
}

func webTransient[T any](s *suite[T]) {
	down := true
	w := s.serve(nil, nil, func(rw http.ResponseWriter, r *http.Request, t T) error {
		if err := s.applyBody(r, t); err != nil {
			return err
		}
		if down {
			rw.Header().Set("Retry-After", "7")
			rw.WriteHeader(http.StatusServiceUnavailable)
		}
		return nil
	})
	rec := w.post("k", "transient")
	w.answer("down", rec, http.StatusServiceUnavailable, "", false)
	if rec.Header().Get("Retry-After") != "7" {
		s.Fatalf("got %v", rec.Header())
	}
	s.wantEffects("transient", 0)
	down = false
	w.answer("up", w.post("k", "transient"), http.StatusOK, "", false)
	down = true
	w.answer("again", w.post("k", "transient"), http.StatusOK, "", true)
	s.wantEffects("transient", 1)
}

func webRelease[T any](s *suite[T]) {
	w := s.serve(nil, &idemhttp.Options{Release: func(int) bool { return true }}, func(rw http.ResponseWriter, r *http.Request, t T) error {
		if r.URL.RawQuery == "fail" {
			rw.WriteHeader(http.StatusUnprocessableEntity)
		}
		return s.applyBody(r, t)
	})
	for range 2 {
		w.answer("released", w.post("a", "released", target("POST", "/?fail")), http.StatusUnprocessableEntity, "", false)
	}
	s.wantEffects("released", 0)
	w.answer("first", w.post("b", "kept"), http.StatusOK, "", false)
	w.answer("2xx is never released", w.post("b", "kept"), http.StatusOK, "", true)
}

func webReturnedFailure[T any](s *suite[T]) {
	var failure error
	w := s.serve(nil, nil, func(rw http.ResponseWriter, r *http.Request, t T) error {
		rw.WriteHeader(http.StatusCreated) // which was too early
		_, _ = rw.Write([]byte("too early"))
		return errors.Join(s.applyBody(r, t), failure)
	})
	for what, c := range map[string]struct {
		failure  error
		status   int
		code     string
		body     string
		replayed bool
	}{
		"with a body": {&idem.Failure{Status: 402, Body: []byte("declined")}, 402, "", "declined", true},
		"without":     {&idem.Failure{Status: 402, Message: "declined"}, 402, idemhttp.CodeOperationFailed, "declined", true},
		"terminal":    {idem.Terminal(errors.New("sold out")), 422, idemhttp.CodeOperationFailed, "sold out", true},
		"transient":   {&idem.Failure{Status: 503, Body: []byte("down")}, 503, "", "down", false},
	} {
		failure = c.failure
		for i := range 2 {
			rec := w.post(what, "failure")
			if rec.Code != c.status || !strings.Contains(rec.Body.String(), c.body) || !strings.Contains(rec.Body.String(), c.code) ||
				strings.Contains(rec.Body.String(), "early") || (rec.Header().Get(marker) == "true") != (c.replayed && i == 1) {
				s.Fatalf("%s, call %d: got %d %s with %v", what, i, rec.Code, rec.Body, rec.Header())
			}
		}
	}
	s.wantEffects("failure", 0)
}

func webReturnedError[T any](s *suite[T]) {
	status := 0
	w := s.serve(nil, nil, func(rw http.ResponseWriter, r *http.Request, t T) error {
		if status != 0 {
			http.Error(rw, "text", status)
		}
		return errors.Join(s.applyBody(r, t), errors.New("a secret"))
	})
	for _, status = range []int{0, http.StatusCreated} { // a 201 that was rolled back must not be seen
		rec := w.post("k", "error")
		w.problem("error", rec, http.StatusInternalServerError, idemhttp.CodeRequestFailed)
		if strings.Contains(rec.Body.String(), "secret") || !strings.Contains(rec.Body.String(), "nothing was done") {
			s.Errorf("got %s", rec.Body)
		}
	}
	for _, status = range []int{http.StatusNotFound, http.StatusBadGateway} {
		w.answer("its own error", w.post("k", "error"), status, "text\n", false)
	}
	s.count(w.runs, 4)
	s.wantEffects("error", 0)
}
