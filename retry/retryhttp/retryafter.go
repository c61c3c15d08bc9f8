package retryhttp

import (
	"math"
	"net/http"
	"strings"
	"time"
)

// RetryAfter returns how long the header Retry-After asks to wait, and whether it is there and valid: whole seconds, or a
// date in one of the three forms of RFC 9110, section 5.6.7, which is compared with the server's own clock if it sent a Date.
// A date that is past is 0, and what does not fit is the longest duration. Of several it returns the longest.
func RetryAfter(h http.Header) (after time.Duration, ok bool) {
	for _, value := range h["Retry-After"] {
		if d, valid := delay(strings.TrimSpace(value), h); valid {
			after, ok = max(after, d), true
		}
	}
	return after, ok
}

func delay(value string, h http.Header) (time.Duration, bool) {
	if value == "" {
		return 0, false
	}
	if strings.Trim(value, "0123456789") == "" {
		return seconds(value), true
	}
	then, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	now := time.Now()
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return max(then.Sub(now), 0), true // Sub saturates
}

// seconds reads digits.
func seconds(digits string) time.Duration {
	const most = math.MaxInt64 / int64(time.Second)
	var n int64
	for _, digit := range digits {
		if n = n*10 + int64(digit-'0'); n > most {
			return math.MaxInt64
		}
	}
	return time.Duration(n) * time.Second
}
