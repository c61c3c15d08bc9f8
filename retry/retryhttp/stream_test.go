package retryhttp_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"

	"github.com/holdfast-go/holdfast/retry/retryhttp"
)

// sink counts what it is sent, and answers as it is told.
func sink(t *testing.T, code int) (url string, got func() int64) {
	t.Helper()
	total := make(chan int64, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		total <- n
		w.WriteHeader(code)
	}))
	t.Cleanup(s.Close)
	return s.URL, func() int64 { return <-total }
}

// zeros is a stream without end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// R10: 200 MiB pass through, and are not kept. If they were, more would be allocated than they are.
func TestR10AStreamIsNotBuffered(t *testing.T) { //nolint:paralleltest // it measures what the process allocates
	for _, c := range []struct {
		code int
		size int64
		err  error
	}{{http.StatusCreated, 200 << 20, nil}, {http.StatusServiceUnavailable, 20 << 20, retryhttp.ErrBody}} {
		url, got := sink(t, c.code)
		client := newClient(t, retryhttp.Options{})
		r, err := http.NewRequestWithContext(t.Context(), "PUT", url, io.LimitReader(zeros{}, c.size))
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		res, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		runtime.ReadMemStats(&after)
		if err := retryhttp.ErrorOf(res); !errors.Is(err, c.err) {
			t.Errorf("%d: %v", c.code, err)
		}
		if n := got(); n != c.size {
			t.Errorf("%d bytes came", n)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 4<<20 {
			t.Errorf("%d MiB were allocated for it", used>>20)
		}
	}
}

// Nothing is read ahead: a caller can write the body in view of the answer.
func TestABodyIsSentAsItIsWritten(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		if control.EnableFullDuplex() != nil {
			return
		}
		first := make([]byte, 5)
		if _, err := io.ReadFull(r.Body, first); err != nil {
			return
		}
		_, _ = w.Write(first)
		_ = control.Flush()
		_, _ = io.Copy(w, r.Body)
	}))
	t.Cleanup(s.Close)
	body, write := io.Pipe()
	r, err := http.NewRequestWithContext(t.Context(), "PUT", s.URL, body)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.WriteString(write, "first") }()
	res, err := newClient(t, retryhttp.Options{}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	echo := make([]byte, 5)
	if _, err := io.ReadFull(res.Body, echo); err != nil || string(echo) != "first" {
		t.Fatalf("got %q, %v", echo, err)
	}
	go func() {
		_, _ = io.WriteString(write, " last")
		_ = write.Close()
	}()
	if rest, err := io.ReadAll(res.Body); err != nil || string(rest) != " last" {
		t.Errorf("got %q, %v", rest, err)
	}
}
