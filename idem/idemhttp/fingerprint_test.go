package idemhttp

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/idem"
)

func post(target, contentType string, body []byte) *http.Request {
	r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, target, bytes.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	return r
}

func multipartBody(boundary string, parts ...string) string {
	var text strings.Builder
	for _, part := range parts {
		text.WriteString("--" + boundary + "\r\nContent-Disposition: form-data; " + part + "\r\n")
	}
	text.WriteString("--" + boundary + "--\r\n")
	return text.String()
}

func TestFingerprintOfRequests(t *testing.T) {
	t.Parallel()
	const asJSON = "application/json"
	of := func(canonicalBody bool, target, contentType, body string) idem.Fingerprint {
		return fingerprint(post(target, contentType, []byte(body)), []byte(body), canonicalBody)
	}
	multi := func(boundary string, parts ...string) idem.Fingerprint {
		return of(false, "/", "multipart/form-data; boundary="+boundary, multipartBody(boundary, parts...))
	}
	a, b := "name=\"a\"\r\n\r\n1", "name=\"b\"\r\n\r\n2"
	for what, pair := range map[string][2]idem.Fingerprint{
		"order of the query":   {of(false, "/p?a=1&b=2", asJSON, "{}"), of(false, "/p?b=2&a=1", asJSON, "{}")},
		"spelling of the type": {of(false, "/p", asJSON, "{}"), of(false, "/p", "Application/JSON; charset=utf-8", "{}")},
		"boundary":             {multi("one", a, b), multi("two", a, b)},
		"members":              {of(true, "/p", asJSON, `{"a":1,"b":2}`), of(true, "/p", asJSON, `{ "b":2, "a":1 }`)},
		"members, vendor type": {of(true, "/p", "application/x+json", `{"a":1,"b":2}`), of(true, "/p", "application/x+json", `{ "b":2, "a":1 }`)},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: the fingerprints differ", what)
		}
	}
	seen := map[idem.Fingerprint]string{}
	for what, f := range map[string]idem.Fingerprint{
		"base":                of(false, "/p", asJSON, `{"a":1,"b":2}`),
		"body":                of(false, "/p", asJSON, `{"a":1,"b":3}`),
		"members, as bytes":   of(false, "/p", asJSON, `{"b":2,"a":1}`),
		"path":                of(false, "/p/1", asJSON, `{"a":1,"b":2}`),
		"escaped path":        of(false, "/p%2F1", asJSON, `{"a":1,"b":2}`),
		"query":               of(false, "/p?a=1", asJSON, `{"a":1,"b":2}`),
		"query twice":         of(false, "/p?a=1&a=1", asJSON, `{"a":1,"b":2}`),
		"order of values":     of(false, "/p?a=1&a=2", asJSON, `{"a":1,"b":2}`),
		"order of values, 2":  of(false, "/p?a=2&a=1", asJSON, `{"a":1,"b":2}`),
		"broken query":        of(false, "/p?a=1;b=2", asJSON, `{"a":1,"b":2}`),
		"broken query, 2":     of(false, "/p?a=1;b=3", asJSON, `{"a":1,"b":2}`),
		"type":                of(false, "/p", "text/plain", `{"a":1,"b":2}`),
		"no type":             of(false, "/p", "", `{"a":1,"b":2}`),
		"broken type":         of(false, "/p", "a/b/c", `{"a":1,"b":2}`),
		"canonical":           of(true, "/p", asJSON, `{"a":1,"b":2}`),
		"twice":               of(true, "/p", asJSON, `{"a":1,"a":1}`),
		"twice, spaced":       of(true, "/p", asJSON, `{"a":1, "a":1}`),
		"multipart":           multi("x", a, b),
		"order of the parts":  multi("x", b, a),
		"name of a part":      multi("x", strings.Replace(a, "a", "c", 1), b),
		"content of a part":   multi("x", strings.Replace(a, "1", "3", 1), b),
		"one part":            multi("x", a),
		"not multipart":       of(false, "/", "multipart/form-data; boundary=x", a),
		"not multipart, 2":    of(false, "/", "multipart/form-data; boundary=x", b),
		"preamble":            of(false, "/", "multipart/form-data; boundary=x", "p"+multipartBody("x", a, b)),
		"preamble, 2":         of(false, "/", "multipart/form-data; boundary=x", "q"+multipartBody("x", a, b)),
		"epilogue":            of(false, "/", "multipart/form-data; boundary=x", multipartBody("x", a, b)+"p"),
		"header of a part":    multi("x", "x=1\r\nX-A: 1\r\n\r\n1"),
		"header of a part, 2": multi("x", "x=1\r\nX-A: 2\r\n\r\n1"),
		"no boundary":         of(false, "/", "multipart/form-data", a+b),
	} {
		if other, ok := seen[f]; ok {
			t.Errorf("%s and %s have the same fingerprint", what, other)
		}
		seen[f] = what
	}
	r := post("/p", asJSON, []byte("{}"))
	r.Method = http.MethodPatch
	if fingerprint(r, []byte("{}"), false) == of(false, "/p", asJSON, "{}") {
		t.Error("the method does not matter")
	}
}
