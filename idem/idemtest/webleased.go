package idemtest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"

	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/idem/idemhttp"
)

func webLeasedRules[T any]() []rule[T] {
	return []rule[T]{
		{"HTTPLeasedOnce", "a handler that calls others runs once: a repetition gets the same response, marked, also in another process", webLeasedOnce[T]},
		{"HTTPLeasedGates", "keys, scopes, sizes and the right to a replay are as over transactions", webLeasedGates[T]},
		{"HTTPLeasedInFlight", "a request meanwhile gets 409, with what is left of the lease as Retry-After", webLeasedInFlight[T]},
		{"HTTPLeasedWait", "with a wait it gets the response of the first, and the handler runs once", webLeasedWait[T]},
		{"HTTPLeasedWrap", "a plain handler reaches the run of its request with RunOf", webLeasedWrap[T]},
		{"HTTPLeasedUnkeyed", "a request that needs no key has a run of its own", webLeasedUnkeyed[T]},
		{"HTTPLeasedLinger", "a client that hangs up leaves a call to another service unknown, unless the work may linger", webLeasedLinger[T]},
		{"HTTPLeasedFree", "before a step has begun, an error status, an error and a panic free the key", webLeasedFree[T]},
		{"HTTPLeasedUnknown", "a step that nobody knows about is 503 with a code, whatever the handler answers, and is looked for before it is made again", webLeasedUnknown[T]},
		{"HTTPLeasedForGood", "what only a person can find out has no Retry-After, and is not done again", webLeasedForGood[T]},
		{"HTTPLeasedRecorded", "an error status after a step that is recorded is sent, and the next request goes on from there", webLeasedRecorded[T]},
		{"HTTPLeasedLost", "a handler that lost its key sends nothing of its own, and writes nothing", webLeasedLost[T]},
		{"HTTPFinish", "the response is stored with the commit of Finish, and nothing of it where that does not happen", webFinish[T]},
		{"HTTPFinishAgain", "after a conflict Finish runs again with the response as it was before", webFinishAgain[T]},
		{"HTTPFinishLast", "nothing that comes after Finish counts, and what comes outside of a run is refused", webFinishLast[T]},
	}
}

// A leasedWeb is a service behind the middleware that calls others.
type leasedWeb[T any] struct {
	web[T]
	m *idemhttp.Leased[*idem.RunTx[T]]

	mu      sync.Mutex // guards what follows
	charges map[string]int
	made    map[string]bool // by child key
}

// serveLeased returns a service whose handler is fn. Each has keys of its own, as if it were a process.
func (s *suite[T]) serveLeased(lo *idem.LeaseOptions, o *idemhttp.Options, fn func(w http.ResponseWriter, r *http.Request, run *idem.RunTx[T]) error) *leasedWeb[T] {
	options := silent()
	if o != nil {
		*options = *o
		options.ErrorLog = silent().ErrorLog
	}
	w := &leasedWeb[T]{web: web[T]{suite: s, runs: &counter{}}, charges: map[string]int{}, made: map[string]bool{}}
	w.m = idemhttp.NewLeased(idem.NewLeased(idem.New(s.DB, nil), lo), tenantOf, options)
	s.must(w.m.Check(s.ctx))
	w.handler = w.m.Handler(func(rw http.ResponseWriter, r *http.Request, run *idem.RunTx[T]) error {
		w.runs.add()
		return fn(rw, r, run)
	})
	return w
}

// charge is a call to another service, which charges and then fails with err.
func (w *leasedWeb[T]) charge(name string, err error) func(ctx context.Context, key string) (int, error) {
	return func(_ context.Context, key string) (int, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.charges[name]++
		w.made[key] = true
		return w.charges[name], err
	}
}

// look finds out whether a charge was made.
func (w *leasedWeb[T]) look(_ context.Context, key string) (int, idem.Landing, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.made[key] {
		return 1, idem.Landed, nil
	}
	return 0, idem.Absent, nil
}

func (w *leasedWeb[T]) wantCharges(name string, want int) {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.charges[name] != want {
		w.Fatalf("%d charges of %q, want %d", w.charges[name], name, want)
	}
}

// paid is a handler that charges once, writes the payment and answers.
func (s *suite[T]) paid(w **leasedWeb[T], name string) func(http.ResponseWriter, *http.Request, *idem.RunTx[T]) error {
	return func(rw http.ResponseWriter, r *http.Request, run *idem.RunTx[T]) error {
		if _, err := idem.Step(r.Context(), run, idem.External[int]{Name: "charge", Call: (*w).charge(name, nil)}); err != nil {
			return err
		}
		return idemhttp.Finish(r.Context(), run, func(ctx context.Context, t T) error {
			if err := s.apply(ctx, t, name); err != nil {
				return err
			}
			rw.Header().Set("Location", "/effects/1")
			rw.Header().Set("Set-Cookie", "a=b")
			rw.WriteHeader(http.StatusCreated)
			_, err := io.WriteString(rw, "paid")
			return err
		})
	}
}

func webLeasedOnce[T any](s *suite[T]) {
	var w *leasedWeb[T]
	w = s.serveLeased(nil, nil, s.paid(&w, "once"))
	first := w.post("k", "body")
	w.answer("first", first, http.StatusCreated, "paid", false)
	if first.Header().Get("Set-Cookie") == "" {
		s.Errorf("the first got %v", first.Header())
	}
	for _, again := range []*leasedWeb[T]{w, s.serveLeased(nil, nil, s.paid(&w, "once"))} {
		rec := again.post("k", "body")
		w.answer("again", rec, http.StatusCreated, "paid", true)
		if rec.Header().Get("Location") != "/effects/1" || rec.Header().Get("Set-Cookie") != "" {
			s.Errorf("again got %v", rec.Header())
		}
	}
	w.wantCharges("once", 1)
	s.wantEffects("once", 1)
}

func webLeasedGates[T any](s *suite[T]) {
	var w *leasedWeb[T]
	var refuse error
	o := &idemhttp.Options{MaxRequest: 10, MaxResponse: 100, AuthorizeReplay: func(*http.Request) error { return refuse }}
	w = s.serveLeased(nil, o, func(rw http.ResponseWriter, r *http.Request, run *idem.RunTx[T]) error {
		if r.URL.RawQuery == "large" {
			_, err := rw.Write(make([]byte, 200))
			return err
		}
		return s.paid(&w, "gates")(rw, r, run)
	})
	w.answer("first", w.post("k", "body"), http.StatusCreated, "paid", false)
	w.answer("another tenant", w.post("k", "body", header("X-Tenant", "b")), http.StatusCreated, "paid", false)
	w.problem("another body", w.post("k", "else"), http.StatusUnprocessableEntity, idemhttp.CodeKeyReused)
	w.problem("a stranger", w.post("k", "body", header("X-Tenant", "stranger")), http.StatusForbidden, idemhttp.CodeNoScope)
	w.problem("no key", w.post("", "body"), http.StatusBadRequest, idemhttp.CodeKeyInvalid)
	w.problem("a long body", w.post("k2", "a body that is too long"), http.StatusRequestEntityTooLarge, idemhttp.CodeBodyTooLarge)
	for range 2 {
		w.problem("a large answer", w.post("l", "", target("POST", "/?large")), http.StatusConflict, idemhttp.CodeNotRetained)
	}
	refuse = errPlain
	w.problem("a replay", w.post("k", "body"), http.StatusForbidden, idemhttp.CodeForbidden)
	w.wantCharges("gates", 2)
	s.count(w.runs, 3)
	for what, m := range map[string]*idemhttp.Leased[*idem.RunTx[T]]{
		"no keys":  idemhttp.NewLeased[*idem.RunTx[T]](nil, tenantOf, silent()),
		"no scope": idemhttp.NewLeased(idem.NewLeased(idem.New(s.DB, nil), nil), nil, silent()),
		"no lease": idemhttp.NewLeased(idem.NewLeased(idem.New(s.DB, nil), &idem.LeaseOptions{Lease: 1}), tenantOf, silent()),
	} {
		if m.Check(s.ctx) == nil {
			s.Errorf("%s: Check says nothing", what)
		}
		w.handler = m.Wrap(http.NotFoundHandler())
		w.problem(what, w.post("k", "body"), http.StatusInternalServerError, idemhttp.CodeMisconfigured)
	}
}

func webLeasedWrap[T any](s *suite[T]) {
	w := s.serveLeased(nil, nil, nil)
	w.handler = w.m.Wrap(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.runs.add()
		run, err := idemhttp.RunOf[*idem.RunTx[T]](r.Context())
		if err == nil {
			_, err = idem.Step(r.Context(), run, idem.External[int]{Name: "charge", Call: w.charge("wrapped", nil)})
		}
		if err != nil {
			http.Error(rw, err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = io.WriteString(rw, "made")
	}))
	for i := range 2 {
		w.answer("wrapped", w.post("k", ""), http.StatusOK, "made", i > 0)
	}
	w.wantCharges("wrapped", 1)
	rec := w.post("", "", target("GET", "/"))
	if rec.Code != http.StatusInternalServerError || rec.Body.String() != idemhttp.ErrNoRun.Error()+"\n" {
		s.Errorf("without a key: got %d %s", rec.Code, rec.Body)
	}
	if _, err := idemhttp.RunOf[*idem.Run](s.ctx); !errors.Is(err, idemhttp.ErrNoRun) {
		s.Errorf("outside: got %v", err)
	}
}

func webLeasedUnkeyed[T any](s *suite[T]) {
	var w *leasedWeb[T]
	w = s.serveLeased(nil, nil, s.paid(&w, "unkeyed"))
	for range 2 {
		w.answer("GET", w.post("k", "", target("GET", "/")), http.StatusCreated, "paid", false)
	}
	w.wantCharges("unkeyed", 2)
	s.wantEffects("unkeyed", 2)
}

func webLeasedFree[T any](s *suite[T]) {
	var end func(rw http.ResponseWriter) error
	w := s.serveLeased(nil, nil, func(rw http.ResponseWriter, _ *http.Request, _ *idem.RunTx[T]) error { return end(rw) })
	post := func() (rec *httptest.ResponseRecorder) {
		defer func() { _ = recover() }()
		return w.post("k", "")
	}
	end = func(rw http.ResponseWriter) error { rw.WriteHeader(http.StatusBadGateway); return nil }
	w.answer("502", post(), http.StatusBadGateway, "", false)
	end = func(http.ResponseWriter) error { return errPlain }
	w.problem("an error", post(), http.StatusInternalServerError, idemhttp.CodeRequestFailed)
	end = func(http.ResponseWriter) error {
		return &idem.Failure{Status: http.StatusServiceUnavailable, Body: []byte("down")}
	}
	w.answer("a failure that is not stored", post(), http.StatusServiceUnavailable, "down", false)
	end = func(http.ResponseWriter) error { panic(http.ErrAbortHandler) }
	if post() != nil {
		s.Error("a panic does not go on")
	}
	end = func(rw http.ResponseWriter) error {
		return &idem.Failure{Status: http.StatusPaymentRequired, Body: []byte("declined")}
	}
	for i := range 2 {
		w.answer("a failure", post(), http.StatusPaymentRequired, "declined", i > 0)
	}
	s.count(w.runs, 5)
}
