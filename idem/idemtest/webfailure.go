package idemtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime/multipart"
	"net/http"
	"os"
	"runtime"
	"strings"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/idem/idemhttp"
	"github.com/holdfast-go/holdfast/tx"
)

func webFailureRules[T any]() []rule[T] {
	return []rule[T]{
		{"HTTPPanic", "a panic or Goexit of the handler rolls back, sends nothing, frees the key and goes on up", webPanic[T]},
		{"HTTPErrorLog", "what is wrong with the service is logged, with its cause, and what is the client's fault is not", webErrorLog[T]},
		{"HTTPTwiceAround", "a middleware that stands twice in the way of a request says so, and does not send the client to wait", webTwiceAround[T]},
		{"HTTPSavedFirst", "a response whose commit fails is not sent", webSavedFirst[T]},
		{"HTTPRunsAgain", "after a conflict the handler runs again, with the request as it came and an empty response", webRunsAgain[T]},
		{"HTTPConflictInSavepoint", "a conflict inside tx.DB.Do starts over although the handler answered 500", webSavepoint[T]},
		{"HTTPRefusedAfterConflict", "a request that is refused after a conflict gets the refusal, and not what its handler wrote before", webRefusedAfterConflict[T]},
		{"HTTPEndlessConflict", "a conflict that does not end is 503, and nothing is done", webEndless[T]},
		{"HTTPBodyBroken", "a body that does not arrive whole is 400, and nothing runs", webBodyBroken[T]},
		{"HTTPStrangeEntry", "a stored answer that is no response is not taken for one", webStrangeEntry[T]},
		{"HTTPTemporaryFiles", "files of a multipart form are removed", webTemporaryFiles[T]},
	}
}

func webPanic[T any](s *suite[T]) {
	var end func()
	w := s.serve(nil, nil, func(rw http.ResponseWriter, r *http.Request, t T) error {
		_, _ = io.WriteString(rw, "half")
		if err := s.applyBody(r, t); err != nil {
			return err
		}
		if end != nil {
			end()
		}
		return nil
	})
	for what, f := range map[string]func(){"panic": func() { panic(http.ErrAbortHandler) }, "goexit": runtime.Goexit} {
		end = f
		returned, recovered, done := false, any(nil), make(chan int)
		go func() {
			defer close(done)
			defer func() { recovered = recover() }()
			w.post("k", "panic")
			returned = true
		}()
		<-done
		if returned || (recovered != nil) != (what == "panic") || recovered != nil && recovered != any(http.ErrAbortHandler) {
			s.Fatalf("%s: returned %v, recovered %v", what, returned, recovered)
		}
		s.wantEffects("panic", 0)
	}
	end = nil
	w.answer("retry", w.post("k", "panic"), http.StatusOK, "half", false)
	s.wantEffects("panic", 1)
}

func webErrorLog[T any](s *suite[T]) {
	var log bytes.Buffer
	status, end := 0, func() {}
	w := s.serve(nil, &idemhttp.Options{ErrorLog: slog.New(slog.NewTextHandler(&log, nil))}, func(rw http.ResponseWriter, r *http.Request, _ T) error {
		if end(); status != 0 {
			rw.WriteHeader(status)
			return nil
		}
		return errors.Join(errPlain, r.Context().Err())
	})
	logs := func(what string, want ...string) {
		s.Helper()
		if len(want) == 0 && log.Len() > 0 || strings.Count(log.String(), "\n") > 1 {
			s.Errorf("%s: logged %s", what, log.String())
		}
		for _, text := range want {
			if !strings.Contains(log.String(), text) {
				s.Errorf("%s: logged %q, want %q", what, log.String(), text)
			}
		}
		log.Reset()
	}
	w.problem("an error", w.post("secret", ""), http.StatusInternalServerError, idemhttp.CodeRequestFailed)
	logs("an error", "level=ERROR", "status=500", "name=POST", "code="+idemhttp.CodeRequestFailed, errPlain.Error())
	w.problem("no key", w.post("", ""), http.StatusBadRequest, idemhttp.CodeKeyInvalid)
	logs("no key")
	for _, status = range []int{http.StatusNotFound, http.StatusBadGateway} { // its own
		w.answer("a response", w.post(fmt.Sprint(status), ""), status, "", false)
		logs("a response")
	}
	ctx, hangUp := context.WithCancel(s.ctx)
	status, end = 0, hangUp
	w.post("gone", "", func(r *http.Request) { *r = *r.WithContext(ctx) })
	logs("a client that hung up")
}

func webTwiceAround[T any](s *suite[T]) {
	m := idemhttp.New(idem.New(s.DB, nil), tenantOf, silent())
	w := &web[T]{suite: s, m: m, handler: m.Wrap(m.Wrap(http.NotFoundHandler()))}
	w.problem("twice", w.post("k", ""), http.StatusInternalServerError, idemhttp.CodeMisconfigured)
}

func webSavedFirst[T any](s *suite[T]) {
	w := s.serve(&idem.Options{KeepFailedWrites: true}, nil, func(rw http.ResponseWriter, r *http.Request, t T) error {
		status := http.StatusCreated
		if r.URL.RawQuery == "fail" {
			status = http.StatusPaymentRequired
		}
		rw.WriteHeader(status)
		_, err := s.DB.Tx(t).Exec(r.Context(), "drop table idem_key") // so that the answer cannot be stored
		return errors.Join(err, s.applyBody(r, t))
	})
	for _, edit := range []func(*http.Request){target("POST", "/"), target("POST", "/?fail")} {
		rec := w.post("k", "saved first", edit)
		w.problem("not saved", rec, http.StatusInternalServerError, idemhttp.CodeRequestFailed)
	}
	s.wantEffects("saved first", 0)
}

func webRunsAgain[T any](s *suite[T]) {
	bodies := []string{}
	var w *web[T]
	w = s.serve(nil, nil, func(rw http.ResponseWriter, r *http.Request, t T) error {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return err
		}
		bodies = append(bodies, string(body)+r.Header.Get("X-Once")+r.Form.Get("once")+rw.Header().Get("X-Once"))
		r.Header.Set("X-Once", "left over")
		r.Form = map[string][]string{"once": {"left over"}}
		rw.Header().Set("X-Once", "left over")
		if err := s.apply(r.Context(), t, "again"); err != nil {
			return err
		}
		if w.runs.get() < 3 {
			_, _ = io.WriteString(rw, strings.Repeat("left over", 1000))
			return fmt.Errorf("wrapped: %w", &stateError{"40001"})
		}
		rw.WriteHeader(http.StatusCreated)
		_, err = io.WriteString(rw, "made")
		return err
	})
	w.answer("first", w.post("k", "body"), http.StatusCreated, "made", false)
	if got := strings.Join(bodies, " "); got != "body body body" {
		s.Fatalf("the attempts got %q", got)
	}
	s.wantEffects("again", 1)
	w.answer("repetition", w.post("k", "body"), http.StatusCreated, "made", true)
}

func webSavepoint[T any](s *suite[T]) {
	var w *web[T]
	w = s.serve(nil, nil, func(rw http.ResponseWriter, r *http.Request, _ T) error {
		err := s.DB.Do(r.Context(), func(ctx context.Context, t T) error {
			if err := s.apply(ctx, t, "savepoint"); err != nil {
				return err
			}
			if w.runs.get() == 1 {
				return &stateError{"40001"}
			}
			return nil
		})
		if err != nil {
			http.Error(rw, "no", http.StatusInternalServerError)
		}
		return nil
	})
	w.answer("first", w.post("k", ""), http.StatusOK, "", false)
	s.count(w.runs, 2)
	s.wantEffects("savepoint", 1)
}

func webRefusedAfterConflict[T any](s *suite[T]) {
	for what, writes := range map[string]int{"nothing written": 0, "an error written": http.StatusInternalServerError} {
		var between func()
		retried := holdfast.ObserverFunc(func(_ context.Context, e holdfast.Event) {
			if e.Kind == tx.EventRetried {
				between()
			}
		})
		// The key is free between two attempts, and another process may take it.
		w := &web[T]{suite: s, m: idemhttp.New(idem.New(s.DB.Observed(retried), nil), tenantOf, nil), runs: &counter{}}
		w.handler = w.m.Handler(func(rw http.ResponseWriter, _ *http.Request, _ T) error {
			w.runs.add()
			if writes != 0 {
				rw.WriteHeader(writes)
			}
			return &stateError{"40001"}
		})
		other := s.serve(nil, nil, nil)
		between = func() { other.answer("meanwhile", other.post(what, "another"), http.StatusCreated, "made", false) }
		w.problem(what, w.post(what, "one"), http.StatusUnprocessableEntity, idemhttp.CodeKeyReused)
		s.count(w.runs, 1)
		if !s.DB.Dialect().Capabilities.ConcurrentWriters {
			continue
		}
		var release func() error
		k := idem.Key{Scope: "a", Name: "POST", Value: what + " in flight"}
		between = func() { release = s.heldAt(idem.New(s.DB, nil), k, nil) }
		w.problem(what, w.post(k.Value, "one"), http.StatusConflict, idemhttp.CodeInFlight)
		s.must(release())
	}
}

func webEndless[T any](s *suite[T]) {
	w := &web[T]{suite: s, m: idemhttp.New(idem.New(s.DB.With(tx.Options{Attempts: 2}), nil), tenantOf, silent()), runs: &counter{}}
	w.handler = w.m.Handler(func(_ http.ResponseWriter, r *http.Request, t T) error {
		w.runs.add()
		return errors.Join(s.applyBody(r, t), &stateError{"40001"})
	})
	w.problem("endless", w.post("k", "endless"), http.StatusServiceUnavailable, idemhttp.CodeStoreUnavailable)
	s.count(w.runs, 2)
	s.wantEffects("endless", 0)
}

func webBodyBroken[T any](s *suite[T]) {
	w := s.serve(nil, nil, nil)
	broken := func(r *http.Request) {
		r.Body = io.NopCloser(io.MultiReader(strings.NewReader("half"), brokenReader{}))
	}
	w.problem("broken", w.post("k", "half", broken), http.StatusBadRequest, idemhttp.CodeBodyUnreadable)
	s.count(w.runs, 0)
	w.answer("whole", w.post("k", "half"), http.StatusCreated, "made", false)
	w.answer("without one", w.post("none", "", func(r *http.Request) { r.Body = nil }), http.StatusCreated, "made", false)
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func webStrangeEntry[T any](s *suite[T]) {
	w := s.serve(nil, nil, nil)
	w.answer("first", w.post("k", "strange"), http.StatusCreated, "made", false)
	for _, body := range [][]byte{{}, {2}, []byte("{}"), {1, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}} {
		s.exec("update idem_key set body = $1", body)
		rec := w.post("k", "strange")
		w.problem(fmt.Sprint(body), rec, http.StatusInternalServerError, idemhttp.CodeRequestFailed)
		if !strings.Contains(rec.Body.String(), "was processed before") {
			s.Errorf("got %s", rec.Body)
		}
	}
	s.count(w.runs, 1)
}

func webTemporaryFiles[T any](s *suite[T]) {
	name := ""
	w := s.serve(nil, nil, func(_ http.ResponseWriter, r *http.Request, _ T) error {
		if err := r.ParseMultipartForm(0); err != nil {
			return err
		}
		file, err := r.MultipartForm.File["file"][0].Open()
		if err != nil {
			return err
		}
		if f, ok := file.(*os.File); ok {
			name = f.Name()
		}
		return file.Close()
	})
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile("file", "a")
	s.must(err)
	_, err = part.Write(bytes.Repeat([]byte("x"), 1<<19)) // above what ParseMultipartForm keeps in memory
	s.must(errors.Join(err, form.Close()))
	rec := w.post("k", body.String(), header("Content-Type", form.FormDataContentType()))
	w.answer("form", rec, http.StatusOK, "", false)
	if _, err := os.Stat(name); name == "" || !os.IsNotExist(err) {
		s.Errorf("the file %q: %v", name, err)
	}
}
