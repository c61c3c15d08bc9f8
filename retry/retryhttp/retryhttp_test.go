package retryhttp_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/retry"
	"github.com/holdfast-go/holdfast/retry/retryhttp"
)

const failed, lost = http.StatusBadGateway, 0

// By the method, and for the rest by the key, a request is sent again or not; without a proof the outcome is unknown.
func TestR01WhatIsSentAgain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method, key string
		answers     []int
		sent        int
		outcome     holdfast.Outcome
	}{
		{"GET", "", []int{failed, lost, 200}, 3, holdfast.Applied},
		{"HEAD", "", []int{failed, 200}, 2, holdfast.Applied},
		{"OPTIONS", "", []int{503, 200}, 2, holdfast.Applied},
		{"PUT", "", []int{lost, 200}, 2, holdfast.Applied},
		{"DELETE", "", []int{500, 204}, 2, holdfast.Applied},
		{"POST", "k", []int{failed, lost, 201}, 3, holdfast.Applied},
		{"PATCH", "k", []int{lost, failed, 200}, 3, holdfast.Applied},
		{"POST", "", []int{failed, 201}, 1, holdfast.Unknown},
		{"POST", "", []int{lost, 201}, 1, holdfast.Unknown},
		{"PATCH", "", []int{500, 200}, 1, holdfast.Unknown},
		{"PATCH", "", []int{lost, 200}, 1, holdfast.Unknown},
		{"LINK", "", []int{failed, 200}, 1, holdfast.Unknown},
		{"POST", "", []int{429, 201}, 1, holdfast.NotApplied},
		{"POST", "k", []int{429, 201}, 2, holdfast.Applied},
		{"POST", "k", []int{402, 201}, 1, holdfast.NotApplied},
		{"POST", "k", []int{422, 201}, 1, holdfast.NotApplied},
		{"GET", "", []int{404, 200}, 1, holdfast.NotApplied},
		{"GET", "", []int{501, 200}, 1, holdfast.Unknown},
		{"POST", "k", []int{lost, 402}, 2, holdfast.Unknown}, // the first may have charged
		{"POST", "k", []int{failed, failed, failed, 201}, 3, holdfast.Unknown},
	} {
		t.Run(fmt.Sprint(c.method, c.key, c.answers), func(t *testing.T) {
			t.Parallel()
			s := serve(t, status(c.answers...))
			res, err := newClient(t, retryhttp.Options{}).Do(request(t, c.method, s.URL, c.key, "body"))
			if err == nil {
				defer func() { _ = res.Body.Close() }()
				if err = retryhttp.ErrorOf(res); err == nil && c.outcome != holdfast.Applied {
					t.Errorf("the response %d is said to be good", res.StatusCode)
				}
				if text, readErr := io.ReadAll(res.Body); readErr != nil || c.method != "HEAD" && res.StatusCode != 204 && len(text) == 0 {
					t.Errorf("the last response cannot be read: %q, %v", text, readErr)
				}
			}
			if got := holdfast.OutcomeOf(err); got != c.outcome && c.outcome != holdfast.Applied || c.outcome == holdfast.Applied && err != nil {
				t.Errorf("the outcome is %v (%v), want %v", got, err, c.outcome)
			}
			got := s.requests()
			if len(got) != c.sent {
				t.Errorf("it was sent %d times, want %d", len(got), c.sent)
			}
			for _, g := range got {
				if g.key != c.key || g.method != c.method || g.body != "body" {
					t.Errorf("the server got %+v", g)
				}
			}
		})
	}
}

// What may be a key to one server and none to another is none.
func TestWhatIsNoKey(t *testing.T) {
	t.Parallel()
	for name, header := range map[string]http.Header{
		"two":           {"Idempotency-Key": {"one", "two"}},
		"the same":      {"Idempotency-Key": {"one", "one"}},
		"empty":         {"Idempotency-Key": {""}},
		"blank":         {"Idempotency-Key": {"  "}},
		"quotes":        {"Idempotency-Key": {`""`}},
		"not canonical": {"idempotency-key": {"one"}},
		"another":       {"X-Request-Id": {"one"}},
	} {
		s := serve(t, status(failed, 201))
		r := request(t, "POST", s.URL, "", "body")
		r.Header = header
		res, err := newClient(t, retryhttp.Options{}).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if err := retryhttp.ErrorOf(res); !errors.Is(err, retryhttp.ErrNoKey) || len(s.requests()) != 1 {
			t.Errorf("%s: sent %d times: %v", name, len(s.requests()), err)
		}
	}
}

func TestR17TheReasonIsTold(t *testing.T) {
	t.Parallel()
	for _, answer := range []int{failed, lost} {
		s := serve(t, status(answer))
		res, err := newClient(t, retryhttp.Options{}).Do(request(t, "POST", s.URL, "", "body"))
		if err == nil {
			err = retryhttp.ErrorOf(res)
			_ = res.Body.Close()
		}
		var stopped *retry.Error
		if !errors.As(err, &stopped) || !errors.Is(err, retryhttp.ErrNoKey) || stopped.Attempts != 1 {
			t.Errorf("got %v", err)
		}
		if !strings.Contains(err.Error(), "not retried: POST without Idempotency-Key") {
			t.Errorf("the text is %q", err)
		}
	}
}

// The request is the caller's: neither its header nor its context changes, and every attempt carries the correlation ID.
func TestTheRequestIsLeftAlone(t *testing.T) {
	t.Parallel()
	s := serve(t, status(503, lost, 200))
	ctx := holdfast.WithCorrelationID(t.Context(), "c-1")
	r, err := http.NewRequestWithContext(ctx, "GET", s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	before := r.Header.Clone()
	res, err := newClient(t, retryhttp.Options{}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if fmt.Sprint(r.Header) != fmt.Sprint(before) || r.Context() != ctx {
		t.Errorf("the request has %v", r.Header)
	}
	if len(s.requests()) != 3 {
		t.Errorf("sent %d times", len(s.requests()))
	}
	for _, g := range s.requests() {
		if g.correlation != "c-1" {
			t.Errorf("the server got %+v", g)
		}
	}
}

func TestEnsureKey(t *testing.T) {
	t.Parallel()
	r := request(t, "POST", "http://localhost", "", "")
	key := retryhttp.EnsureKey(r)
	if key == "" || retryhttp.EnsureKey(r) != key || r.Header.Get("Idempotency-Key") != key {
		t.Errorf("the keys are %q and %q", key, r.Header.Get("Idempotency-Key"))
	}
	if other := retryhttp.EnsureKey(request(t, "POST", "http://localhost", "", "")); other == key {
		t.Error("two requests have one key")
	}
	if kept := retryhttp.EnsureKey(request(t, "POST", "http://localhost", "mine", "")); kept != "mine" {
		t.Errorf("the caller's key became %q", kept)
	}
}

// A server that does not answer is given up by the attempt, and asked again.
func TestAttemptTimeout(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	s := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
		if n == 1 {
			select {
			case <-release:
			case <-r.Context().Done():
			}
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	defer close(release)
	client := newClient(t, retryhttp.Options{Retry: retry.Options{AttemptTimeout: 300 * time.Millisecond}})
	res, err := client.Do(request(t, "GET", s.URL, "", ""))
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if n := len(s.requests()); n != 2 {
		t.Errorf("sent %d times", n)
	}
}

// R18: net/http sends a request with a key once more by itself, when a connection that was kept dies under it. All sends have one key.
func TestR18EverySendHasTheSameKey(t *testing.T) {
	t.Parallel()
	s := serve(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n == 2 { // the connection of the first, used again
			hangUp(w)
		}
	})
	client := newClient(t, retryhttp.Options{})
	for _, key := range []string{"first", "second"} {
		res, err := client.Do(request(t, "POST", s.URL, key, "body"))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
	}
	got := s.requests()
	if len(got) != 3 {
		t.Fatalf("3 sends were expected: %+v", got)
	}
	for _, g := range got[1:] {
		if g.key != "second" || g.body != "body" {
			t.Errorf("the server got %+v", g)
		}
	}
}
