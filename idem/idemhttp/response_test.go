package idemhttp

import (
	"bytes"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/idem"
)

// What is stored comes back as it was, and what is no envelope is refused, without much work.
func FuzzEnvelope(f *testing.F) {
	rec := &recorder{status: 201, sent: http.Header{"Link": {"a", ""}, "Etag": {`"1"`}}, body: []byte("body")}
	envelope := rec.encode(DefaultHeaders)
	f.Add(envelope)
	for n := range envelope {
		f.Add(envelope[:n])
	}
	f.Add([]byte{1, 0, 0xc8, 0x01, 0xff, 0xff, 0xff, 0xff, 0x07})
	f.Fuzz(func(t *testing.T, envelope []byte) {
		s, err := decode(envelope)
		if err != nil {
			if !errors.Is(err, idem.ErrResult) {
				t.Fatalf("got %v", err)
			}
			return
		}
		rec := &recorder{status: s.status, sent: s.header, body: s.body, over: s.over}
		again, err := decode(rec.encode(slices.Sorted(maps.Keys(s.header))))
		if err != nil || again.status != s.status || again.over != s.over || !bytes.Equal(again.body, s.body) ||
			!maps.EqualFunc(again.header, s.header, slices.Equal) {
			t.Fatalf("%q: got %+v, %v, want %+v", envelope, again, err, s)
		}
	})
}

func TestAnInvalidStatusPanics(t *testing.T) {
	t.Parallel()
	for _, status := range []int{-1, 0, 99, 1000} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%d is taken", status)
				}
			}()
			newRecorder(httptest.NewRecorder(), 1).WriteHeader(status)
		}()
	}
}

func TestTheFirstStatusCounts(t *testing.T) {
	t.Parallel()
	rec := newRecorder(httptest.NewRecorder(), 10)
	rec.WriteHeader(http.StatusContinue)
	rec.WriteHeader(http.StatusCreated)
	rec.Header().Set("Etag", "late")
	rec.WriteHeader(http.StatusTeapot)
	if rec.status != http.StatusCreated || rec.sent.Get("Etag") != "" {
		t.Errorf("got %d with %v", rec.status, rec.sent)
	}
}

func TestNamesOfHeadersAreSettled(t *testing.T) {
	t.Parallel()
	o, err := Options{Headers: []string{"x-a", "X-A", "set-cookie"}, KeyHeaders: []string{"idempotency-key", "x-idempotency-key"}}.settle()
	if err != nil || slices.Contains(o.Headers, "Set-Cookie") || !slices.Contains(o.Headers, "X-A") || len(o.Headers) != len(DefaultHeaders)+1 ||
		!slices.Equal(o.KeyHeaders, []string{"Idempotency-Key", "X-Idempotency-Key"}) {
		t.Errorf("got %v, %v, %v", o.Headers, o.KeyHeaders, err)
	}
	for _, name := range []string{"", "a b", "a:b", "a\n", "é"} {
		if _, err := (Options{KeyHeaders: []string{name}}).settle(); err == nil {
			t.Errorf("%q is taken", name)
		}
	}
}

func TestRouteOfARequest(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]string{
		"": "POST", "/a/{id}": "POST /a/{id}", "POST /a": "POST /a", "POST  \texample.com/a": "POST example.com/a",
	} {
		r := post("/a", "", nil)
		if r.Pattern = pattern; routeOf(r) != want {
			t.Errorf("%q: got %q", pattern, routeOf(r))
		}
	}
}
