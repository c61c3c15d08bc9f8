package retryhttp_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/retry/retryhttp"
)

func TestR02RetryAfterIsHeededAndClamped(t *testing.T) {
	t.Parallel()
	s := serve(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n == 1 {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	})
	begun := time.Now()
	res, err := newClient(t, retryhttp.Options{}).Do(request(t, "GET", s.URL, "", ""))
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK || time.Since(begun) < 20*time.Millisecond {
		t.Errorf("got %d after %v, and Options.MaxDelay is 20 ms", res.StatusCode, time.Since(begun))
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, seed := range []string{"", "0", "120", "-1", "1.5", "99999999999999999999", "Fri, 31 Dec 1999 23:59:59 GMT", "Wed, 21 Oct 2115 07:28:00 GMT", " 7 ", "\x00"} {
		f.Add(seed, "Wed, 21 Oct 2015 07:28:00 GMT")
	}
	f.Fuzz(func(t *testing.T, value, date string) {
		d, ok := retryhttp.RetryAfter(http.Header{"Retry-After": {value}, "Date": {date}})
		if d < 0 || !ok && d != 0 {
			t.Errorf("%q at %q is %v, %v", value, date, d, ok)
		}
	})
}
