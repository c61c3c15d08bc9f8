package idemhttp

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// blank is a ResponseWriter that keeps nothing.
type blank struct{ header http.Header }

func (b *blank) Header() http.Header         { return b.header }
func (b *blank) WriteHeader(int)             {}
func (b *blank) Write(p []byte) (int, error) { return len(p), nil }

// BenchmarkOwnWork is what the middleware adds to a handler and to idem.Do: it reads the key and the body, takes the
// fingerprint, records the response, encodes and sends it. There is no database in it.
func BenchmarkOwnWork(b *testing.B) {
	const payment = `{"account":"account-7","amount":1250,"currency":"EUR","order":"order-17"}`
	m := newGate(false, NoScope, nil)
	work := func(w http.ResponseWriter, r *http.Request) error {
		_, err := io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"id":"1","account":"account-7","amount":1250,"state":"captured"}`)
		return err
	}
	var envelope []byte
	run := func(name string, serve func(w http.ResponseWriter, r *http.Request)) {
		r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "/payments", nil)
		r.Header.Set("Idempotency-Key", `"8e03978e-40d5-43dd-bc93-6894a57f9324"`)
		r.Header.Set("Content-Type", "application/json")
		r.ContentLength = int64(len(payment))
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r.Body = io.NopCloser(strings.NewReader(payment))
				serve(&blank{http.Header{}}, r)
			}
		})
	}
	run("bare handler", func(w http.ResponseWriter, r *http.Request) {
		if err := work(w, r); err != nil {
			b.Fatal(err)
		}
	})
	identify := func(w http.ResponseWriter, r *http.Request) *exchange {
		x := &exchange{m: m, w: w, r: r}
		if _, p := x.identify(); p != nil {
			b.Fatal(p)
		}
		return x
	}
	run("first request", func(w http.ResponseWriter, r *http.Request) {
		x := identify(w, r)
		var err error
		if envelope, err = x.attempt(r.Context(), work, func(error) bool { return false }); err != nil {
			b.Fatal(err)
		}
		x.answer()
	})
	run("repetition", func(w http.ResponseWriter, r *http.Request) { identify(w, r).replay(envelope, false) })
}
