package retryhttp

import (
	"crypto/rand"
	"net/http"
	"strings"
)

// EnsureKey returns the Idempotency-Key of the request, and gives it one if it has none. Every attempt of a [Transport] sends
// that key. The key belongs to the operation: for a request that may be made again later, by another call or another
// process, keep the key with the order, and set the header from it.
func EnsureKey(r *http.Request) string {
	if key := keyOf(r.Header, keyHeader); key != "" {
		return key
	}
	if r.Header == nil {
		r.Header = http.Header{}
	}
	key := rand.Text()
	r.Header.Set(keyHeader, key)
	return key
}

// keyOf returns the key in the header. Two of them are none: nobody knows which one the server takes.
func keyOf(h http.Header, name string) string {
	values := h[http.CanonicalHeaderKey(name)]
	if len(values) != 1 || strings.Trim(values[0], ` "`) == "" {
		return ""
	}
	return values[0]
}
