package retryhttp_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/retry"
	"github.com/holdfast-go/holdfast/retry/retryhttp"
)

// Nothing leaves while rows are locked.
func TestRowLocks(t *testing.T) {
	t.Parallel()
	s := serve(t, status(200))
	scope := &holdfast.LockScope{}
	ctx := holdfast.WithLockScope(t.Context(), scope)
	scope.Hold("account", nil)
	r, err := http.NewRequestWithContext(ctx, "GET", s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = newClient(t, retryhttp.Options{}).Do(r)
	if !errors.Is(err, holdfast.ErrLockHeld) || len(s.requests()) != 0 {
		t.Errorf("got %v after %d requests", err, len(s.requests()))
	}
}

// Of two transports, one over the other, the outer one sends again.
func TestStackedTransportsDoNotMultiply(t *testing.T) {
	t.Parallel()
	told := retryhttp.Options{Retry: retry.Options{Nested: true}}
	for _, c := range []struct {
		outer, inner retryhttp.Options
		sent         int
	}{{retryhttp.Options{}, retryhttp.Options{}, 3}, {told, retryhttp.Options{}, 9}, {retryhttp.Options{}, told, 9}} {
		s := serve(t, status(503))
		client := newClient(t, c.inner)
		client.Transport = retryhttp.New(client.Transport, quick(c.outer))
		res, err := client.Do(request(t, "GET", s.URL, "", ""))
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if n := len(s.requests()); n != c.sent {
			t.Errorf("outer nested %v, inner nested %v: %d requests, want %d", c.outer.Retry.Nested, c.inner.Retry.Nested, n, c.sent)
		}
	}
}

// Within the attempt of another call, a request is sent once.
func TestNested(t *testing.T) {
	t.Parallel()
	s := serve(t, status(503))
	client := newClient(t, retryhttp.Options{})
	p := retry.New(&retry.Options{BaseDelay: time.Microsecond, Attempts: 4})
	err := retry.Run(t.Context(), p, retry.Read, func(ctx context.Context, _ retry.Attempt) error {
		r, err := http.NewRequestWithContext(ctx, "GET", s.URL, nil)
		if err != nil {
			return err
		}
		res, err := client.Do(r)
		if err != nil {
			return err
		}
		defer func() { _ = res.Body.Close() }()
		return retryhttp.ErrorOf(res)
	})
	if err == nil || len(s.requests()) != 4 {
		t.Errorf("4 attempts sent %d requests: %v", len(s.requests()), err)
	}
}
