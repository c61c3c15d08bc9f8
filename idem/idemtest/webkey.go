package idemtest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/idem/idemhttp"
)

func webKeyRules[T any]() []rule[T] {
	return []rule[T]{
		{"HTTPReplay", "a repetition gets status, kept headers and body byte for byte, whatever spelling and header the key comes in", webReplay[T]},
		{"HTTPKeyRefused", "a key that is missing, broken or given twice is refused with 400, and nothing runs", webKeyRefused[T]},
		{"HTTPKeyOptional", "where it is optional, a request without a key runs each time, in a transaction", webKeyOptional[T]},
		{"HTTPMismatch", "a key that comes with another request is refused with 422, and its answer stays", webMismatch[T]},
		{"HTTPParsedForm", "a form that was read before, by a middleware outside or the scope function, is compared all the same", webParsedForm[T]},
		{"HTTPCanonicalJSON", "canonical JSON forgives spelling, and nothing else", webCanonicalJSON[T]},
		{"HTTPTogether", "of many requests at once one runs; the others get 409 with Retry-After, or its answer", webTogether[T]},
		{"HTTPInFlight", "a duplicate of a running request is refused at once, or waits for its answer", webInFlight[T]},
		{"HTTPExpired", "an expired key is refused with 410", webExpired[T]},
		{"HTTPBodyLimit", "a request body above the limit is refused with 413, and nothing runs", webBodyLimit[T]},
	}
}

func webReplay[T any](s *suite[T]) {
	const body = "\x00\xff{\"id\": 1}\n"
	heard := &events{}
	w := s.serve(&idem.Options{Observer: heard}, &idemhttp.Options{KeyHeaders: []string{"x-idempotency-key"}}, func(rw http.ResponseWriter, r *http.Request, t T) error {
		if err := s.applyBody(r, t); err != nil {
			return err
		}
		h := rw.Header()
		h.Set("Location", "/effects/1")
		h.Set("ETag", `"1"`)
		h["Link"] = []string{"</a>; rel=a", "</b>; rel=b"}
		h.Set("Content-Type", "application/json")
		rw.WriteHeader(http.StatusAccepted)
		_, err := rw.Write([]byte(body))
		return err
	})
	none := func(r *http.Request) { r.Header.Del("Idempotency-Key") }
	for i, edits := range [][]func(*http.Request){
		{},
		{},
		{header("Idempotency-Key", `"k 1"`)},
		{none, header("X-Idempotency-Key", "k 1")},
		{none, header("X-Idempotency-Key", `"k 1"`)},
		{header("X-Idempotency-Key", `"k 1"`)},
	} {
		rec := w.post("k 1", "replay", edits...)
		w.answer(fmt.Sprint("call ", i), rec, http.StatusAccepted, body, i > 0)
		h := rec.Header()
		if h.Get("Location") != "/effects/1" || h.Get("Etag") != `"1"` || h.Get("Content-Type") != "application/json" ||
			strings.Join(h["Link"], " ") != "</a>; rel=a </b>; rel=b" || h.Get("Content-Length") != fmt.Sprint(len(body)) {
			s.Fatalf("call %d: got %v", i, h)
		}
	}
	s.count(w.runs, 1)
	s.wantEffects("replay", 1)
	if got := heard.kinds(s, ""); got != "idem.claimed idem.completed "+strings.Repeat("idem.replayed ", 5) {
		s.Fatalf("heard %q", got)
	}
}

func webKeyRefused[T any](s *suite[T]) {
	w := s.serve(nil, &idemhttp.Options{KeyHeaders: []string{"X-Idempotency-Key"}}, nil)
	lines := func(name string, lines ...string) func(*http.Request) {
		return func(r *http.Request) { r.Header[name] = lines }
	}
	const k, x = "Idempotency-Key", "X-Idempotency-Key"
	for what, c := range map[string]struct {
		code string
		edit func(*http.Request)
	}{
		"missing":                {idemhttp.CodeKeyMissing, func(r *http.Request) { r.Header.Del(k) }},
		"empty":                  {idemhttp.CodeKeyInvalid, lines(k, "")},
		"empty string":           {idemhttp.CodeKeyInvalid, lines(k, `""`)},
		"not closed":             {idemhttp.CodeKeyInvalid, lines(k, `"abc`)},
		"parameters":             {idemhttp.CodeKeyInvalid, lines(k, `"abc";v=2`)},
		"joined by a proxy":      {idemhttp.CodeKeyInvalid, lines(k, "a, b")},
		"NUL":                    {idemhttp.CodeKeyInvalid, lines(k, "a\x00b")},
		"not UTF-8":              {idemhttp.CodeKeyInvalid, lines(k, "\xff\xfe")},
		"10 MB":                  {idemhttp.CodeKeyInvalid, lines(k, strings.Repeat("k", 10<<20))},
		"256 bytes":              {idemhttp.CodeKeyInvalid, lines(k, strings.Repeat("k", 256))},
		"two lines":              {idemhttp.CodeKeyAmbiguous, lines(k, "a", "b")},
		"the same line twice":    {idemhttp.CodeKeyAmbiguous, lines(k, "a", "a")},
		"headers that disagree":  {idemhttp.CodeKeyAmbiguous, lines(x, "b")},
		"a second one is broken": {idemhttp.CodeKeyInvalid, lines(x, `"`)},
	} {
		w.problem(what, w.post("a", "refused", c.edit), http.StatusBadRequest, c.code)
	}
	s.count(w.runs, 0)
	s.wantEffects("refused", 0)
	w.answer("255 bytes", w.post(strings.Repeat("k", 255), "long"), http.StatusCreated, "made", false)
}

func webKeyOptional[T any](s *suite[T]) {
	status := http.StatusCreated
	w := s.serve(nil, &idemhttp.Options{KeyOptional: true}, func(rw http.ResponseWriter, r *http.Request, t T) error {
		rw.WriteHeader(status)
		return s.applyBody(r, t)
	})
	none := func(r *http.Request) { r.Header.Del("Idempotency-Key") }
	for range 2 {
		w.answer("no key", w.post("", "optional", none), http.StatusCreated, "", false)
	}
	s.wantEffects("optional", 2)
	w.answer("key", w.post("k", "keyed"), http.StatusCreated, "", false)
	w.answer("key", w.post("k", "keyed"), http.StatusCreated, "", true)
	s.wantEffects("keyed", 1)
	w.problem("broken key", w.post("", "optional"), http.StatusBadRequest, idemhttp.CodeKeyInvalid)
	for _, status = range []int{http.StatusPaymentRequired, http.StatusConflict, http.StatusInternalServerError} {
		w.answer("a failure", w.post("", "undone", none), status, "", false)
	}
	s.wantEffects("undone", 0)
}

func webMismatch[T any](s *suite[T]) {
	w := s.serve(nil, &idemhttp.Options{Methods: []string{"POST", "PUT"}}, nil)
	w.answer("first", w.post("k", "first"), http.StatusCreated, "made", false)
	for range 2 { // by a claim, and by a read
		for what, edits := range map[string][]func(*http.Request){
			"path":  {target("POST", "/effects/2")},
			"query": {target("POST", "/effects?dry=1")},
			"type":  {header("Content-Type", "text/plain")},
		} {
			w.problem(what, w.post("k", "first", edits...), http.StatusUnprocessableEntity, idemhttp.CodeKeyReused)
		}
		w.problem("body", w.post("k", "second"), http.StatusUnprocessableEntity, idemhttp.CodeKeyReused)
		w.answer("first", w.post("k", "first"), http.StatusCreated, "made", true)
	}
	s.count(w.runs, 1)
	w.answer("another operation", w.post("k", "put", target("PUT", "/effects")), http.StatusCreated, "made", false)
}

func webParsedForm[T any](s *suite[T]) {
	w := s.serve(nil, nil, func(_ http.ResponseWriter, r *http.Request, t T) error {
		if r.MultipartForm != nil {
			f, err := r.MultipartForm.File["file"][0].Open()
			if err != nil {
				return err
			}
			return errors.Join(f.Close(), s.apply(r.Context(), t, "form"))
		}
		return s.apply(r.Context(), t, r.PostFormValue("amount"))
	})
	parsed := func(r *http.Request) { s.must(r.ParseForm()) }
	of := header("Content-Type", "application/x-www-form-urlencoded")
	for i := range 2 {
		w.answer("a form", w.post("k", "amount=1&to=a", of, parsed), http.StatusOK, "", i > 0)
		w.problem("another", w.post("k", "amount=2&to=a", of, parsed), http.StatusUnprocessableEntity, idemhttp.CodeKeyReused)
	}
	s.wantEffects("1", 1)
	s.count(w.runs, 1)

	parts := func(r *http.Request) { s.must(r.ParseMultipartForm(0)) } // all of it into files
	post := func(field, content string) *httptest.ResponseRecorder {
		var body bytes.Buffer
		form := multipart.NewWriter(&body)
		s.must(form.WriteField("field", field))
		file, err := form.CreateFormFile("file", "a")
		s.must(err)
		_, err = io.WriteString(file, content)
		s.must(errors.Join(err, form.Close()))
		return w.post("m", body.String(), header("Content-Type", form.FormDataContentType()), parts)
	}
	content := strings.Repeat("x", 1<<19)
	for i := range 2 {
		w.answer("parts", post("f", content), http.StatusOK, "", i > 0)
		w.problem("another field", post("g", content), http.StatusUnprocessableEntity, idemhttp.CodeKeyReused)
		w.problem("another file", post("f", content+"y"), http.StatusUnprocessableEntity, idemhttp.CodeKeyReused)
	}
	s.count(w.runs, 2)
}

func webCanonicalJSON[T any](s *suite[T]) {
	w := s.serve(nil, &idemhttp.Options{CanonicalJSON: true}, nil)
	asJSON := header("Content-Type", "application/json; charset=utf-8")
	const first = `{"a":1,"b":[2,{"c":null}]}`
	w.answer("first", w.post("k", first, asJSON), http.StatusCreated, "made", false)
	w.answer("another spelling", w.post("k", ` {"b": [2, {"c": null}], "\u0061": 1}`, asJSON), http.StatusCreated, "made", true)
	for _, body := range []string{`{"a":1.0,"b":[2,{"c":null}]}`, `{"a":1,"b":[2,{}]}`, first + first, `{"a":1,"a":1,"b":[2,{"c":null}]}`} {
		w.problem(body, w.post("k", body, asJSON), http.StatusUnprocessableEntity, idemhttp.CodeKeyReused)
	}
	s.count(w.runs, 1)
}

func webTogether[T any](s *suite[T]) {
	for _, processes := range []int{1, 8} { // requests of one process share a claim
		name := fmt.Sprint("together ", processes)
		var wg sync.WaitGroup
		start, runs := make(chan struct{}), 0
		services := make([]*web[T], processes)
		for i := range services {
			w := s.serve(nil, nil, nil)
			services[i] = w
			for range 64 / processes {
				wg.Go(func() {
					<-start
					switch rec := w.post(name, name); {
					case rec.Code == http.StatusCreated && rec.Body.String() == "made":
					case rec.Code == http.StatusConflict && rec.Header().Get("Retry-After") == "1":
					default:
						s.Errorf("got %d %s", rec.Code, rec.Body)
					}
				})
			}
		}
		close(start)
		wg.Wait()
		for _, w := range services {
			runs += w.runs.get()
		}
		if runs != 1 {
			s.Errorf("the handler ran %d times", runs)
		}
		s.wantEffects(name, 1)
	}
}

func webInFlight[T any](s *suite[T]) {
	inside, leave := make(chan struct{}), make(chan struct{})
	let := sync.OnceFunc(func() { close(leave) })
	defer let()
	w := s.serve(nil, nil, func(rw http.ResponseWriter, r *http.Request, t T) error {
		close(inside)
		<-leave
		return s.applyBody(r, t)
	})
	waiting := s.serve(&idem.Options{Wait: time.Minute}, nil, nil)
	first, second := make(chan *httptest.ResponseRecorder, 1), make(chan *httptest.ResponseRecorder, 1)
	go func() { first <- w.post("k", "in flight") }()
	<-inside
	if s.DB.Dialect().Capabilities.AdvisoryLocks { // else duplicates wait for the writer
		for range 2 {
			w.problem("duplicate", w.post("k", "in flight"), http.StatusConflict, idemhttp.CodeInFlight)
		}
	}
	go func() { second <- waiting.post("k", "in flight") }()
	let()
	w.answer("first", <-first, http.StatusOK, "", false)
	w.answer("waiting", <-second, http.StatusOK, "", true)
	s.count(waiting.runs, 0)
	s.wantEffects("in flight", 1)
}

func webExpired[T any](s *suite[T]) {
	w := s.serve(&idem.Options{TTL: time.Millisecond}, nil, nil)
	w.answer("first", w.post("k", "expired"), http.StatusCreated, "made", false)
	s.awaitExpiry("idem_key", 0)
	w.problem("later", w.post("k", "expired"), http.StatusGone, idemhttp.CodeKeyExpired)
	s.count(w.runs, 1)
}

func webBodyLimit[T any](s *suite[T]) {
	w := s.serve(nil, &idemhttp.Options{MaxRequest: 8}, nil)
	w.answer("at the limit", w.post("k1", "12345678"), http.StatusCreated, "made", false)
	w.problem("above", w.post("k2", "123456789"), http.StatusRequestEntityTooLarge, idemhttp.CodeBodyTooLarge)
	w.problem("above, of unknown length", w.post("k2", "123456789", func(r *http.Request) { r.ContentLength = -1 }),
		http.StatusRequestEntityTooLarge, idemhttp.CodeBodyTooLarge)
	s.count(w.runs, 1)
	w.answer("the key is free", w.post("k2", "1"), http.StatusCreated, "made", false)
}
