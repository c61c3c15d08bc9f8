package idemtest

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/idem/idemhttp"
)

func webStoreRules() []leasedRule {
	return []leasedRule{
		{"HTTPOnce", "behind idemhttp.Leased a request is done once, in whatever process, and a duplicate is refused with what is left of the lease", webStoreOnce},
		{"HTTPUnknown", "a step that nobody knows about is 503 with a code, and is looked for before it is made again", webStoreUnknown},
	}
}

// serving returns a function that posts with key "k" to a process of its own whose handler is fn.
func (s *leasedSuite) serving(o idem.LeaseOptions, fn func(w http.ResponseWriter, r *http.Request, run *idem.Run) error) func() *httptest.ResponseRecorder {
	m := idemhttp.NewLeased(s.process(o), idemhttp.NoScope, silent())
	s.must(m.Check(s.ctx))
	handler := m.Handler(fn)
	return func() *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(s.ctx, http.MethodPost, "/charges", strings.NewReader("body"))
		r.Header.Set("Idempotency-Key", "k")
		rec := httptest.NewRecorder()
		handler.ServeHTTP(rec, r)
		return rec
	}
}

func (s *leasedSuite) wantResponse(what string, rec *httptest.ResponseRecorder, status int, body string, replayed bool) {
	s.Helper()
	if rec.Code != status || !strings.Contains(rec.Body.String(), body) || (rec.Header().Get(marker) != "") != replayed {
		s.Fatalf("%s: got %d %s with %v", what, rec.Code, rec.Body, rec.Header())
	}
}

func webStoreOnce(s *leasedSuite) {
	paid := func(w http.ResponseWriter, _ *http.Request, _ *idem.Run) error {
		s.charge("web")
		w.Header().Set("Location", "/charges/1")
		w.WriteHeader(http.StatusCreated)
		_, err := io.WriteString(w, "paid")
		return err
	}
	another := s.serving(idem.LeaseOptions{}, paid)
	var meanwhile *httptest.ResponseRecorder
	post := s.serving(idem.LeaseOptions{}, func(w http.ResponseWriter, r *http.Request, run *idem.Run) error {
		meanwhile = another()
		return paid(w, r, run)
	})
	s.wantResponse("first", post(), http.StatusCreated, "paid", false)
	s.wantResponse("meanwhile", meanwhile, http.StatusConflict, idemhttp.CodeInFlight, false)
	if meanwhile.Header().Get("Retry-After") == "" {
		s.Errorf("got %v", meanwhile.Header())
	}
	for _, post := range []func() *httptest.ResponseRecorder{post, another} {
		rec := post()
		s.wantResponse("again", rec, http.StatusCreated, "paid", true)
		if rec.Header().Get("Location") != "/charges/1" {
			s.Errorf("got %v", rec.Header())
		}
	}
	s.wantCharges("web", 1)
}

func webStoreUnknown(s *leasedSuite) {
	runs := 0
	post := s.serving(idem.LeaseOptions{RetryAfter: time.Millisecond, LongestRetry: time.Millisecond}, func(w http.ResponseWriter, r *http.Request, run *idem.Run) error {
		runs++
		_, err := idem.Step(r.Context(), run, idem.External[string]{
			Name: "charge",
			Call: func(context.Context, string) (string, error) {
				s.charge("unknown")
				return "", errPlain
			},
			Reconcile: func(context.Context, string) (string, idem.Landing, error) { return "paid", idem.Landed, nil },
		})
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return nil
		}
		_, err = io.WriteString(w, "paid")
		return err
	})
	s.wantResponse("unknown", post(), http.StatusServiceUnavailable, idemhttp.CodeOutcomeUnknown, false)
	rec := post()
	for runs == 1 && s.ctx.Err() == nil { // until it is due
		rec = post()
	}
	s.wantResponse("found", rec, http.StatusOK, "paid", false)
	s.wantResponse("again", post(), http.StatusOK, "paid", true)
	s.wantCharges("unknown", 1)
}
