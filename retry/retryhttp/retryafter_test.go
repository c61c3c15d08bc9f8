package retryhttp_test

import (
	"math"
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

// R2: every form of the header, and what is none.
func TestR02RetryAfterForms(t *testing.T) {
	t.Parallel()
	const now = "Wed, 21 Oct 2015 07:28:00 GMT"
	for _, c := range []struct {
		values []string
		want   time.Duration
		ok     bool
	}{
		{nil, 0, false},
		{[]string{"0"}, 0, true},
		{[]string{"3600"}, time.Hour, true},
		{[]string{" 7 "}, 7 * time.Second, true},
		{[]string{"007"}, 7 * time.Second, true},
		{[]string{"9223372036"}, 9223372036 * time.Second, true},
		{[]string{"9223372037"}, math.MaxInt64, true}, // one second more than fits
		{[]string{"99999999999999999999"}, math.MaxInt64, true},
		{[]string{"9223372036854775808"}, math.MaxInt64, true},
		{[]string{"18446744073709551617"}, math.MaxInt64, true}, // 1, to who computes with 64 bits
		{[]string{"-1"}, 0, false},
		{[]string{"+1"}, 0, false},
		{[]string{"1.5"}, 0, false},
		{[]string{"1e3"}, 0, false},
		{[]string{"٣"}, 0, false}, // a digit, and none of HTTP's
		{[]string{""}, 0, false},
		{[]string{"soon"}, 0, false},
		{[]string{"Wed, 21 Oct 2015 07:29:00 GMT"}, time.Minute, true},
		{[]string{"Wednesday, 21-Oct-15 07:29:00 GMT"}, time.Minute, true},
		{[]string{"Wed Oct 21 07:29:00 2015"}, time.Minute, true},
		{[]string{"Wed, 21 Oct 2015 07:27:00 GMT"}, 0, true},
		{[]string{"Thu, 01 Jan 2999 00:00:00 GMT"}, math.MaxInt64, true},
		{[]string{"Wed, 21 Oct 2015 07:29:00 CEST"}, 0, false},
		{[]string{"5", "60"}, time.Minute, true},
		{[]string{"60", "5"}, time.Minute, true},
		{[]string{"soon", "5"}, 5 * time.Second, true},
	} {
		if got, ok := retryhttp.RetryAfter(http.Header{"Retry-After": c.values, "Date": {now}}); got != c.want || ok != c.ok {
			t.Errorf("%q is %v, %v; want %v, %v", c.values, got, ok, c.want, c.ok)
		}
	}
	later := time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
	if got, ok := retryhttp.RetryAfter(http.Header{"Retry-After": {later}}); !ok || got <= 59*time.Minute || got > time.Hour {
		t.Errorf("without a Date an hour is %v, %v", got, ok)
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
