package idemtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/idem/idemhttp"
)

func webLeasedInFlight[T any](s *suite[T]) {
	var w *leasedWeb[T]
	var meanwhile *httptest.ResponseRecorder
	w = s.serveLeased(&idem.LeaseOptions{Lease: time.Minute}, nil, func(rw http.ResponseWriter, r *http.Request, run *idem.RunTx[T]) error {
		other := s.serveLeased(&idem.LeaseOptions{Lease: time.Minute}, nil, s.paid(&w, "other"))
		meanwhile = other.post("k", "body")
		w.problem("another body", other.post("k", "else"), http.StatusUnprocessableEntity, idemhttp.CodeKeyReused)
		return s.paid(&w, "first")(rw, r, run)
	})
	w.answer("first", w.post("k", "body"), http.StatusCreated, "paid", false)
	w.problem("meanwhile", meanwhile, http.StatusConflict, idemhttp.CodeInFlight)
	if left, err := strconv.Atoi(meanwhile.Header().Get("Retry-After")); err != nil || left < 30 || left > 60 {
		s.Errorf("Retry-After is %q, of a lease of a minute", meanwhile.Header().Get("Retry-After"))
	}
	w.wantCharges("other", 0)
}

func webLeasedWait[T any](s *suite[T]) {
	var w *leasedWeb[T]
	begun, others := make(chan struct{}), make(chan *httptest.ResponseRecorder, 2)
	w = s.serveLeased(&idem.LeaseOptions{Wait: time.Minute}, nil, func(rw http.ResponseWriter, r *http.Request, run *idem.RunTx[T]) error {
		close(begun)
		return s.paid(&w, "wait")(rw, r, run)
	})
	elsewhere := s.serveLeased(&idem.LeaseOptions{Wait: time.Minute}, nil, s.paid(&w, "elsewhere"))
	for _, other := range []*leasedWeb[T]{w, elsewhere} {
		go func() {
			<-begun
			others <- other.post("k", "body")
		}()
	}
	w.answer("first", w.post("k", "body"), http.StatusCreated, "paid", false)
	for range 2 {
		w.answer("a duplicate", <-others, http.StatusCreated, "paid", true)
	}
	w.wantCharges("wait", 1)
	w.wantCharges("elsewhere", 0)
}

// The client hangs up while another service is called.
func webLeasedLinger[T any](s *suite[T]) {
	for linger, status := range map[time.Duration]int{0: http.StatusServiceUnavailable, time.Minute: http.StatusCreated} {
		var w *leasedWeb[T]
		hangUp := func() {}
		w = s.serveLeased(nil, &idemhttp.Options{Linger: linger}, func(rw http.ResponseWriter, r *http.Request, run *idem.RunTx[T]) error {
			_, err := idem.Step(r.Context(), run, idem.External[int]{Name: "charge", Call: func(ctx context.Context, _ string) (int, error) {
				hangUp()
				return 1, context.Cause(ctx)
			}})
			rw.WriteHeader(http.StatusCreated)
			return err
		})
		ctx, cancel := context.WithCancel(s.ctx)
		hangUp = cancel
		rec := w.post(linger.String(), "", func(r *http.Request) { *r = *r.WithContext(ctx) })
		if rec.Code != status {
			s.Fatalf("Linger %v: got %d %s", linger, rec.Code, rec.Body)
		}
	}
}

// retrying are options with which an unknown is looked into at once.
var retrying = &idem.LeaseOptions{RetryAfter: time.Millisecond, LongestRetry: time.Millisecond}

// whenDue posts until the key is due, and the handler runs.
func (w *leasedWeb[T]) whenDue(key string) *httptest.ResponseRecorder {
	for ran := w.runs.get(); ; {
		rec := w.post(key, "")
		if w.runs.get() > ran || w.ctx.Err() != nil {
			return rec
		}
	}
}

func webLeasedUnknown[T any](s *suite[T]) {
	for what, end := range map[string]func(rw http.ResponseWriter, err error) error{
		"an error":     func(_ http.ResponseWriter, err error) error { return err },
		"a 502":        func(rw http.ResponseWriter, _ error) error { rw.WriteHeader(http.StatusBadGateway); return nil },
		"a false 201":  func(rw http.ResponseWriter, _ error) error { rw.WriteHeader(http.StatusCreated); return nil },
		"a false 402":  func(rw http.ResponseWriter, _ error) error { rw.WriteHeader(http.StatusPaymentRequired); return nil },
		"a 503 failed": func(http.ResponseWriter, error) error { return &idem.Failure{Status: http.StatusServiceUnavailable} },
	} {
		var w *leasedWeb[T]
		fail, looked := errPlain, 0
		w = s.serveLeased(retrying, nil, func(rw http.ResponseWriter, r *http.Request, run *idem.RunTx[T]) error {
			_, err := idem.Step(r.Context(), run, idem.External[int]{
				Name: "charge", Call: w.charge(what, fail),
				Reconcile: func(ctx context.Context, key string) (int, idem.Landing, error) {
					if looked++; looked == 1 {
						return 0, idem.Unsure, nil
					}
					return w.look(ctx, key)
				},
			})
			if err != nil {
				return end(rw, err)
			}
			_, err = io.WriteString(rw, "paid")
			return err
		})
		for range 2 { // the call, and a Reconcile that is not sure
			w.problem(what, w.whenDue(what), http.StatusServiceUnavailable, idemhttp.CodeOutcomeUnknown)
		}
		fail = nil
		w.answer(what+", found", w.whenDue(what), http.StatusOK, "paid", false)
		w.answer(what+", again", w.post(what, ""), http.StatusOK, "paid", true)
		w.wantCharges(what, 1)
		s.count(w.runs, 3)
	}
}

func webLeasedForGood[T any](s *suite[T]) {
	var w *leasedWeb[T]
	w = s.serveLeased(&idem.LeaseOptions{MaxAttempts: 1}, nil, func(_ http.ResponseWriter, r *http.Request, run *idem.RunTx[T]) error {
		_, err := idem.Step(r.Context(), run, idem.External[int]{Name: "charge", Call: w.charge("lost", errPlain)})
		return err
	})
	for range 2 {
		rec := w.post("k", "")
		if rec.Code != http.StatusServiceUnavailable || rec.Header().Get("Retry-After") != "" || !strings.Contains(rec.Body.String(), idemhttp.CodeOutcomeUnknown) ||
			!strings.Contains(rec.Body.String(), "somebody has to find out") {
			s.Fatalf("got %d %s with %v", rec.Code, rec.Body, rec.Header())
		}
	}
	w.wantCharges("lost", 1)
	s.count(w.runs, 1)
}

func webLeasedRecorded[T any](s *suite[T]) {
	var w *leasedWeb[T]
	var end func(rw http.ResponseWriter) error
	w = s.serveLeased(retrying, nil, func(rw http.ResponseWriter, r *http.Request, run *idem.RunTx[T]) error {
		if _, err := idem.Step(r.Context(), run, idem.External[int]{Name: "charge", Call: w.charge("recorded", nil)}); err != nil {
			return err
		}
		return end(rw)
	})
	end = func(rw http.ResponseWriter) error { http.Error(rw, "down", http.StatusServiceUnavailable); return nil }
	w.answer("503", w.post("k", ""), http.StatusServiceUnavailable, "down\n", false)
	end = func(http.ResponseWriter) error { return errPlain }
	w.problem("an error", w.whenDue("k"), http.StatusInternalServerError, idemhttp.CodeRequestFailed)
	end = func(rw http.ResponseWriter) error { rw.WriteHeader(http.StatusCreated); return nil }
	w.answer("201", w.whenDue("k"), http.StatusCreated, "", false)
	w.answer("again", w.post("k", ""), http.StatusCreated, "", true)
	w.wantCharges("recorded", 1)
}

func webLeasedLost[T any](s *suite[T]) {
	var w *leasedWeb[T]
	o := &idem.LeaseOptions{Lease: time.Minute}
	resolver := idem.NewLeased(idem.New(s.DB, nil), o)
	for what, finish := range map[string]bool{"by Finish": true, "by return": false} {
		w = s.serveLeased(o, nil, func(rw http.ResponseWriter, r *http.Request, run *idem.RunTx[T]) error {
			list, err := resolver.List(s.ctx, idem.Filter{States: []idem.State{idem.Running}})
			if err != nil || len(list) != 1 {
				s.Errorf("%d keys, %v", len(list), err)
				return err
			}
			s.exec("update idem_key set lease_until = created_at") // somebody waited for a minute
			if ok, err := resolver.Resolve(s.ctx, list[0].ID, "a person", idem.AsFailed(&idem.Failure{Status: 402, Message: "no"})); err != nil || !ok {
				s.Errorf("Resolve: %v, %v", ok, err)
			}
			if !finish {
				_, err := io.WriteString(rw, "zombie")
				return err
			}
			return s.paid(&w, "zombie")(rw, r, run)
		})
		w.problem(what, w.post(what, ""), http.StatusServiceUnavailable, idemhttp.CodeOutcomeUnknown)
	}
	s.wantEffects("zombie", 0)
}

func webFinish[T any](s *suite[T]) {
	var w *leasedWeb[T]
	var end func(rw http.ResponseWriter) error
	w = s.serveLeased(retrying, nil, func(rw http.ResponseWriter, r *http.Request, run *idem.RunTx[T]) error {
		name := r.Header.Get("Idempotency-Key")
		if _, err := idem.Step(r.Context(), run, idem.External[int]{Name: "charge", Call: w.charge(name, nil)}); err != nil {
			return err
		}
		err := idemhttp.Finish(r.Context(), run, func(ctx context.Context, t T) error {
			return errors.Join(s.apply(ctx, t, name), end(rw))
		})
		if err != nil && name == "handled" {
			http.Error(rw, "sorry", http.StatusServiceUnavailable)
			return nil
		}
		return err
	})
	made := func(rw http.ResponseWriter) error { rw.WriteHeader(http.StatusCreated); return nil }
	end = func(rw http.ResponseWriter) error { http.Error(rw, "declined", http.StatusPaymentRequired); return nil }
	for i := range 2 {
		w.answer("402", w.post("status", ""), http.StatusPaymentRequired, "declined\n", i > 0)
	}
	end = func(rw http.ResponseWriter) error { return &idem.Failure{Status: 402, Body: []byte("declined")} }
	for i := range 2 {
		w.answer("a failure", w.post("failure", ""), http.StatusPaymentRequired, "declined", i > 0)
	}
	s.wantEffects("status", 0)
	s.wantEffects("failure", 0)
	failed := func(rw http.ResponseWriter) error { rw.WriteHeader(http.StatusCreated); return errPlain }
	for key, c := range map[string]struct {
		fail func(rw http.ResponseWriter) error
		body string
	}{
		"503":     {func(rw http.ResponseWriter) error { http.Error(rw, "down", http.StatusServiceUnavailable); return nil }, "down\n"},
		"error":   {failed, idemhttp.CodeRequestFailed},
		"handled": {failed, "sorry\n"}, // the 201 that was not stored does not count
	} {
		end = c.fail
		if rec := w.post(key, ""); rec.Code < http.StatusInternalServerError || !strings.Contains(rec.Body.String(), c.body) || rec.Header().Get(marker) != "" {
			s.Fatalf("%s: got %d %s", key, rec.Code, rec.Body)
		}
		s.wantEffects(key, 0)
		end = made
		w.answer(key, w.whenDue(key), http.StatusCreated, "", false)
		s.wantEffects(key, 1)
		w.wantCharges(key, 1)
	}
}

func webFinishAgain[T any](s *suite[T]) {
	var w *leasedWeb[T]
	tries := 0
	w = s.serveLeased(nil, nil, func(rw http.ResponseWriter, r *http.Request, run *idem.RunTx[T]) error {
		rw.Header().Set("Location", "before")
		return idemhttp.Finish(r.Context(), run, func(ctx context.Context, t T) error {
			tries++
			rw.Header().Add("Link", strconv.Itoa(tries))
			if _, err := io.WriteString(rw, "try "+strconv.Itoa(tries)); err != nil {
				return err
			}
			if err := s.apply(ctx, t, "again"); err != nil || tries > 1 {
				return err
			}
			return fmt.Errorf("%w: %w", &idem.Failure{Status: 402}, &stateError{"40001"}) // a conflict, whatever the handler made of it
		})
	})
	for i := range 2 {
		rec := w.post("k", "")
		w.answer("again", rec, http.StatusOK, "try 2", i > 0)
		if rec.Header().Get("Location") != "before" || strings.Join(rec.Header()["Link"], ",") != "2" {
			s.Errorf("got %v", rec.Header())
		}
	}
	s.wantEffects("again", 1)
}

func webFinishLast[T any](s *suite[T]) {
	var w *leasedWeb[T]
	w = s.serveLeased(nil, nil, func(rw http.ResponseWriter, r *http.Request, run *idem.RunTx[T]) error {
		if err := s.paid(&w, "last")(rw, r, run); err != nil {
			return err
		}
		rw.WriteHeader(http.StatusTeapot)
		if _, err := io.WriteString(rw, "more"); err == nil {
			s.Error("a response that is stored takes more")
		}
		if err := s.paid(&w, "twice")(rw, r, run); !errors.Is(err, idem.ErrStep) {
			s.Errorf("a step after Finish: got %v", err)
		}
		return errPlain
	})
	for i := range 2 {
		w.answer("last", w.post("k", ""), http.StatusCreated, "paid", i > 0)
	}
	s.wantEffects("last", 1)
	if err := idemhttp.Finish(s.ctx, (*idem.RunTx[T])(nil), nil); !errors.Is(err, idemhttp.ErrNoRun) {
		s.Errorf("outside: got %v", err)
	}
	own := s.serveLeased(nil, nil, func(rw http.ResponseWriter, r *http.Request, run *idem.RunTx[T]) error {
		_, err := idem.Finish(r.Context(), run, func(context.Context, T) (string, error) { return "no response", nil })
		return err
	})
	for range 2 { // it was done, and is not done again
		own.problem("idem.Finish", own.post("own", ""), http.StatusInternalServerError, idemhttp.CodeRequestFailed)
	}
	s.count(own.runs, 1)
}
