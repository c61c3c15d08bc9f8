package idemtest

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/idem/idemhttp"
)

func webHandlerRules[T any]() []rule[T] {
	return []rule[T]{
		{"HTTPWrap", "a plain handler reaches the transaction with Tx, or joins it with DB.Do", webWrap[T]},
		{"HTTPOtherMethods", "methods that need no key pass, and get a transaction from Handler", webOtherMethods[T]},
		{"HTTPInsideAnother", "a middleware inside another is part of its transaction", webInsideAnother[T]},
	}
}

func webWrap[T any](s *suite[T]) {
	w := s.serve(nil, nil, nil)
	w.handler = w.m.Wrap(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.runs.add()
		t, err := idemhttp.Tx[T](r.Context())
		if err != nil {
			http.Error(rw, err.Error(), http.StatusInternalServerError)
			return
		}
		err = errors.Join(s.apply(r.Context(), t, "by Tx"), s.DB.Do(r.Context(), func(ctx context.Context, joined T) error {
			if any(joined) != any(t) {
				return errors.New("another transaction")
			}
			return s.apply(ctx, joined, "by Do")
		}))
		if err != nil {
			http.Error(rw, err.Error(), http.StatusInternalServerError)
			return
		}
		if r.URL.RawQuery == "fail" {
			http.Error(rw, "no", http.StatusPaymentRequired)
			return
		}
		_, _ = io.WriteString(rw, "made")
	}))
	for i := range 2 {
		w.answer("wrapped", w.post("k", ""), http.StatusOK, "made", i > 0)
		w.answer("failed", w.post("f", "", target("POST", "/?fail")), http.StatusPaymentRequired, "no\n", i > 0)
	}
	s.count(w.runs, 2)
	s.wantEffects("by Tx", 1)
	s.wantEffects("by Do", 1)
	if _, err := idemhttp.Tx[T](s.ctx); !errors.Is(err, idemhttp.ErrNoTransaction) {
		s.Errorf("Tx outside: got %v", err)
	}
}

func webOtherMethods[T any](s *suite[T]) {
	w := s.serve(nil, nil, func(rw http.ResponseWriter, r *http.Request, t T) error {
		_, err := io.WriteString(rw, r.Method)
		return errors.Join(err, s.apply(r.Context(), t, r.Method))
	})
	for _, method := range []string{"GET", "PUT", "DELETE", "OPTIONS"} {
		for range 2 {
			w.answer(method, w.post(`"broken`, "", target(method, "/")), http.StatusOK, method, false)
		}
		s.wantEffects(method, 2)
	}
	w.handler = w.m.Wrap(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if _, err := idemhttp.Tx[T](r.Context()); !errors.Is(err, idemhttp.ErrNoTransaction) {
			s.Errorf("%s: got %v", r.Method, err)
		}
		if _, ok := rw.(interface{ Flush() }); !ok {
			s.Errorf("%s: the writer is not the server's", r.Method)
		}
		rw.WriteHeader(http.StatusTeapot)
	}))
	w.answer("GET", w.post("", "", target("GET", "/")), http.StatusTeapot, "", false)
}

func webInsideAnother[T any](s *suite[T]) {
	inner := s.serve(nil, nil, nil)
	fail := true
	outer := idemhttp.New(idem.New(s.DB, nil), func(*http.Request) (string, error) { return "outer", nil }, nil)
	w := &web[T]{suite: s}
	w.handler = outer.Wrap(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		inner.handler.ServeHTTP(rw, r)
		if fail {
			panic(http.ErrAbortHandler)
		}
	}))
	func() {
		defer func() { _ = recover() }()
		w.post("k", "inside")
	}()
	s.wantEffects("inside", 0)
	fail = false
	w.answer("retry", w.post("k", "inside"), http.StatusCreated, "made", false)
	w.answer("repetition", w.post("k", "inside"), http.StatusCreated, "made", true)
	s.count(inner.runs, 2)
	s.wantEffects("inside", 1)
}
