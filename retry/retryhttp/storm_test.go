package retryhttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/retry"
	"github.com/holdfast-go/holdfast/retry/retryhttp"
)

// Many callers at once, whose requests succeed, fail, are lost, time out and are cancelled, leave no goroutine behind.
func TestNothingIsLeftRunning(t *testing.T) { //nolint:paralleltest // it counts the goroutines of the process
	before := runtime.NumGoroutine()
	t.Run("storm", func(t *testing.T) {
		s := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
			switch n % 6 {
			case 0:
				w.WriteHeader(http.StatusServiceUnavailable)
				_, _ = io.WriteString(w, strings.Repeat("x", 1<<17)) // more than is drained
			case 1:
				hangUp(w)
			case 2:
				<-r.Context().Done()
			default:
				_, _ = io.WriteString(w, "good")
			}
		})
		client := newClient(t, retryhttp.Options{
			Breaker: &retry.BreakerOptions{Failures: 1 << 20},
			Retry:   retry.Options{AttemptTimeout: 50 * time.Millisecond, Budget: retry.NewBudget(1, 1<<20)},
		})
		var all sync.WaitGroup
		for worker := range 64 {
			all.Go(func() {
				for i := range 4 {
					ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
					r := request(t, []string{"GET", "POST", "PUT"}[i%3], s.URL, []string{"", "k"}[worker%2], "body").WithContext(ctx)
					if i%2 == 0 {
						r.Body, r.GetBody = io.NopCloser(strings.NewReader("body")), nil
					}
					if res, err := client.Do(r); err == nil {
						if worker%3 > 0 {
							_, _ = io.Copy(io.Discard, res.Body)
						}
						_ = res.Body.Close()
					}
					cancel()
				}
			})
		}
		all.Wait()
	})
	for deadline := time.Now().Add(20 * time.Second); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
		}
	}
}

// For the race detector, without a network: the state that requests share.
func TestManyRequestsAtOnce(t *testing.T) {
	t.Parallel()
	calls := 200_000
	if testing.Short() {
		calls = 20_000
	}
	passes := errors.New("it may pass")
	below := roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Header.Get("X-Fail") != "" {
			return nil, passes
		}
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
	})
	transport := retryhttp.New(below, &retryhttp.Options{
		Breaker: &retry.BreakerOptions{Failures: 1 << 30}, Retry: retry.Options{BaseDelay: 1, MaxDelay: 1, Attempts: 2},
	})
	good, bad := request(t, "POST", "http://localhost", "k", ""), request(t, "POST", "http://another", "", "")
	bad.Header.Set("X-Fail", "yes")
	call := func(i int) {
		r := good
		if i%50 == 0 {
			r = bad
		}
		res, err := transport.RoundTrip(r.WithContext(t.Context())) //nolint:bodyclose // there is none
		if (err == nil) != (r == good) || err == nil && retryhttp.ErrorOf(res) != nil {
			t.Errorf("call %d: %v", i, err)
		}
	}
	for i := range calls {
		call(i + 1)
	}
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			for i := range calls / 64 {
				call(i + 1)
			}
		})
	}
	all.Wait()
}
