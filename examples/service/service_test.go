package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// start runs the service on file, and returns how to call it and how to stop it.
func start(t *testing.T, file string) (call func(method, path, header, value, body string) (int, string), stop func()) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, file, listener) }()
	client := &http.Client{Transport: &http.Transport{}}
	call = func(method, path, header, value, body string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+listener.Addr().String()+path, strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		r.Header.Set(header, value)
		res, err := client.Do(r)
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Error(err)
		}
		return res.StatusCode, res.Header.Get("ETag") + string(text)
	}
	return call, func() {
		t.Helper()
		client.CloseIdleConnections()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func TestService(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "shop.db")
	call, stop := start(t, file)
	expect := func(want int, method, path, header, value, body string) (answer string) {
		t.Helper()
		status, answer := call(method, path, header, value, body)
		if status != want {
			t.Errorf("%s %s %s: %s: %d %s, want %d", method, path, header, value, status, answer, want)
		}
		return answer
	}
	first := expect(http.StatusCreated, "PUT", "/events/gala", "If-None-Match", "*", `{"title": "Gala", "seats": 5}`)
	expect(http.StatusOK, "PUT", "/events/gala", "If-Match", first, `{"title": "The Gala"}`)
	expect(http.StatusPreconditionFailed, "PUT", "/events/gala", "If-Match", first, `{"title": "Late"}`)
	expect(http.StatusPreconditionRequired, "PUT", "/events/gala", "X-None", "", `{"title": "Blind"}`)

	const order = `{"buyer": "ann", "seats": 3}`
	answers := make([]string, 8)
	var wg sync.WaitGroup
	for i := range answers {
		wg.Go(func() {
			for status := http.StatusConflict; status == http.StatusConflict; { // another is at it
				status, answers[i] = call("POST", "/events/gala/tickets", "Idempotency-Key", "ann-1", order)
			}
		})
	}
	wg.Wait()
	for _, answer := range answers {
		if answer != answers[0] || !strings.Contains(answer, `"ticket"`) {
			t.Errorf("one purchase got the answers %q and %q", answers[0], answer)
		}
	}
	expect(http.StatusConflict, "POST", "/events/gala/tickets", "Idempotency-Key", "bob-1", `{"buyer": "bob", "seats": 3}`)
	expect(http.StatusCreated, "POST", "/events/gala/tickets", "Idempotency-Key", "bob-2", `{"buyer": "bob", "seats": 2}`)
	expect(http.StatusNotFound, "POST", "/events/none/tickets", "Idempotency-Key", "bob-3", `{"buyer": "bob", "seats": 2}`)
	expect(http.StatusBadRequest, "POST", "/events/gala/tickets", "X-None", "", order)
	for range 2 {
		expect(http.StatusOK, "POST", "/payments", "X-None", "", `{"id": "m-1", "ticket": 1}`)
	}
	stop()

	call, stop = start(t, file)
	if again := expect(http.StatusCreated, "POST", "/events/gala/tickets", "Idempotency-Key", "ann-1", order); again != answers[0] {
		t.Errorf("after a restart the answer is %q, it was %q", again, answers[0])
	}
	stop()
}
