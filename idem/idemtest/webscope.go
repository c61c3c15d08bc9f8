package idemtest

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/idem/idemhttp"
)

func webScopeRules[T any]() []rule[T] {
	return []rule[T]{
		{"HTTPScopes", "nobody reads another scope's response, whatever the key", webScopes[T]},
		{"HTTPNoScope", "a request of nobody is refused with 403, and a middleware without a scope function refuses all", webNoScope[T]},
		{"HTTPAuthorizeReplay", "who may not see a stored answer any more does not get it", webAuthorizeReplay[T]},
		{"HTTPRoutes", "the same key on two routes is two operations", webRoutes[T]},
		{"HTTPRefuse", "refusals go through the options' own writer, and the observer hears of them", webRefuse[T]},
	}
}

// hostile are parts of scopes and keys that would meet if one were glued to the other, or reach into a statement.
var hostile = []string{"a", "b", ":", "a:b", "/", "'", `\`, "' or '1'='1", "; drop table idem_key; --", "$1", "%", "null", " ", "a b", "é"}

// webScopes asks with random scopes and keys. Each answer holds the scope and the run that it is of.
func webScopes[T any](s *suite[T]) {
	seed := uint64(time.Now().UnixNano()) //nolint:gosec // any number will do
	s.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	word := func(words []string) (text string) {
		for range 1 + random.IntN(3) {
			text += words[random.IntN(len(words))]
		}
		return "x" + text + "x" // what is outside is trimmed
	}
	w := s.serve(nil, nil, func(rw http.ResponseWriter, r *http.Request, _ T) error {
		_, err := fmt.Fprintf(rw, "%q %q", r.Header.Get("X-Tenant"), r.Header.Get("Idempotency-Key"))
		return err
	})
	seen := map[[2]string]bool{}
	for range rounds() * 8 {
		scope, key := word(hostile), word(hostile[:len(hostile)-1])
		rec := w.post(key, "same", header("X-Tenant", scope))
		w.answer(fmt.Sprintf("%q, %q", scope, key), rec, http.StatusOK, fmt.Sprintf("%q %q", scope, key), seen[[2]string{scope, key}])
		seen[[2]string{scope, key}] = true
	}
	s.count(w.runs, len(seen))
}

// rounds is the length of a random campaign.
func rounds() int {
	if n, err := strconv.Atoi(os.Getenv("HOLDFAST_ROUNDS")); err == nil {
		return n
	}
	return 25
}

func webNoScope[T any](s *suite[T]) {
	w := s.serve(nil, nil, nil)
	for _, tenant := range []string{"", "stranger", "a\x00b", "\xff"} {
		w.problem(strconv.Quote(tenant), w.post("k", "nobody", header("X-Tenant", tenant)), http.StatusForbidden, idemhttp.CodeNoScope)
	}
	keys := idem.New(s.DB, nil)
	failing := &web[T]{suite: s, m: idemhttp.New(keys, func(*http.Request) (string, error) { return "tenant", errors.New("expired") }, silent())}
	failing.handler = failing.m.Handler(func(_ http.ResponseWriter, r *http.Request, t T) error { return s.applyBody(r, t) })
	failing.problem("a scope with an error", failing.post("k", "nobody"), http.StatusForbidden, idemhttp.CodeNoScope)
	for what, m := range map[string]*idemhttp.Middleware[T]{
		"no scope function": idemhttp.New(keys, nil, silent()),
		"no keys":           idemhttp.New[T](nil, tenantOf, silent()),
		"unsound keys":      idemhttp.New(idem.New(s.DB, &idem.Options{TTL: -1}), tenantOf, silent()),
		"negative limit":    idemhttp.New(keys, tenantOf, &idemhttp.Options{MaxResponse: -1, ErrorLog: silent().ErrorLog}),
		"no header":         idemhttp.New(keys, tenantOf, &idemhttp.Options{KeyHeaders: []string{"X Key"}, ErrorLog: silent().ErrorLog}),
	} {
		if m.Check(s.ctx) == nil {
			s.Errorf("%s: Check finds nothing", what)
		}
		broken := &web[T]{suite: s, m: m}
		broken.handler = m.Handler(func(_ http.ResponseWriter, r *http.Request, t T) error { return s.applyBody(r, t) })
		broken.problem(what, broken.post("k", "nobody"), http.StatusInternalServerError, idemhttp.CodeMisconfigured)
		if what == "unsound keys" { // which others do not need
			continue
		}
		broken.handler = m.Wrap(broken.handler)
		broken.problem(what, broken.post("k", "nobody", target("GET", "/")), http.StatusInternalServerError, idemhttp.CodeMisconfigured)
	}
	s.wantEffects("nobody", 0)
	one := &web[T]{suite: s, m: idemhttp.New(keys, idemhttp.NoScope, nil)}
	one.handler = one.m.Handler(func(_ http.ResponseWriter, r *http.Request, t T) error { return s.applyBody(r, t) })
	one.answer("no scope", one.post("k", "everybody", header("X-Tenant", "a")), http.StatusOK, "", false)
	one.answer("no scope", one.post("k", "everybody", header("X-Tenant", "b")), http.StatusOK, "", true)
}

func webAuthorizeReplay[T any](s *suite[T]) {
	allowed, failing := true, http.StatusCreated
	o := &idemhttp.Options{AuthorizeReplay: func(r *http.Request) error {
		if r.Header.Get("X-Tenant") != "a" || !allowed {
			return errors.New("not any more")
		}
		return nil
	}}
	w := s.serve(nil, o, func(rw http.ResponseWriter, r *http.Request, t T) error {
		rw.WriteHeader(failing)
		return s.applyBody(r, t)
	})
	for _, failing = range []int{http.StatusCreated, http.StatusPaymentRequired} {
		allowed = false
		key := fmt.Sprint(failing)
		w.answer("first", w.post(key, "seen"), failing, "", false)
		w.problem("not allowed", w.post(key, "seen"), http.StatusForbidden, idemhttp.CodeForbidden)
		allowed = true
		w.answer("allowed", w.post(key, "seen"), failing, "", true)
	}
	s.count(w.runs, 2)
	w = s.serve(&idem.Options{MaxBody: -1}, o, nil)
	w.answer("first", w.post("lost", "seen"), http.StatusCreated, "made", false)
	w.problem("not retained", w.post("lost", "seen"), http.StatusConflict, idemhttp.CodeNotRetained)
	allowed = false
	w.problem("not allowed", w.post("lost", "seen"), http.StatusForbidden, idemhttp.CodeForbidden)
}

func webRoutes[T any](s *suite[T]) {
	w := s.serve(nil, nil, nil)
	mux := http.NewServeMux()
	for _, pattern := range []string{"POST /a", "/b", "PATCH /a", "POST /c/{id}"} {
		mux.Handle(pattern, w.handler)
	}
	w.handler = mux
	for _, replayed := range []bool{false, true} {
		for method, path := range map[string]string{"POST": "/a", "PATCH": "/a"} {
			w.answer(method+path, w.post("k", "routes", target(method, path)), http.StatusCreated, "made", replayed)
		}
		w.answer("/b", w.post("k", "routes", target("POST", "/b")), http.StatusCreated, "made", replayed)
		w.answer("/c/1", w.post("k", "routes", target("POST", "/c/1")), http.StatusCreated, "made", replayed)
	}
	w.problem("another value in the path", w.post("k", "routes", target("POST", "/c/2")), http.StatusUnprocessableEntity, idemhttp.CodeKeyReused)
	s.wantEffects("routes", 4)
}

func webRefuse[T any](s *suite[T]) {
	heard := &events{}
	w := s.serve(nil, &idemhttp.Options{Observer: heard, Refuse: func(w http.ResponseWriter, _ *http.Request, p *idemhttp.Problem) {
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, p.Code)
	}}, nil)
	r := w.request("", "refuse")
	*r = *r.WithContext(holdfast.WithCorrelationID(r.Context(), "id"))
	w.answer("refused", w.post("", "refuse", func(got *http.Request) { *got = *r }), http.StatusTeapot, idemhttp.CodeKeyInvalid, false)
	if len(heard.list) != 1 || heard.list[0].Name != idemhttp.CodeKeyInvalid || heard.list[0].Err == nil {
		s.Errorf("heard %+v", heard.list)
	}
	if got := heard.kinds(s, "id"); got != "idemhttp.refused " {
		s.Errorf("heard %q", got)
	}
}
