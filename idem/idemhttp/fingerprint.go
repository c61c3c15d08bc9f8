package idemhttp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/idem"
)

// read takes the body of the request, which each attempt gets anew.
func (x *exchange) read() *Problem {
	if x.r.Body == nil || x.r.Body == http.NoBody {
		return nil
	}
	limit := x.m.o.MaxRequest
	if x.r.ContentLength > limit {
		return bodyTooLarge(limit)
	}
	var b bytes.Buffer
	if n := x.r.ContentLength; n > 0 {
		b.Grow(int(n) + bytes.MinRead) // one more read finds the end
	}
	_, err := b.ReadFrom(http.MaxBytesReader(x.w, x.r.Body, limit))
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return bodyTooLarge(limit)
	case err != nil:
		return bodyUnreadable(err)
	}
	x.body = b.Bytes()
	return nil
}

// fingerprint tells one request from another: the method, the path, the query in any order, the type of the body and the
// body. Headers besides are not part of it, since proxies and clients change them from one attempt to the next.
func fingerprint(r *http.Request, body []byte, canonicalBody bool) idem.Fingerprint {
	query := r.URL.RawQuery
	if query != "" {
		if values, err := url.ParseQuery(query); err == nil {
			query = values.Encode()
		}
	}
	base, params := mediaType(r.Header.Get("Content-Type"))
	form := "bytes"
	switch {
	case strings.HasPrefix(base, "multipart/"):
		if parts, err := partsOf(body, params["boundary"]); err == nil {
			form, body = "parts", parts
		}
	case canonicalBody && (base == "application/json" || strings.HasSuffix(base, "+json")):
		if text, err := canonicalJSON(body); err == nil {
			form, body = "json", text
		}
	}
	return idem.FingerprintOf([]byte(r.Method), []byte(r.URL.EscapedPath()), []byte(query), []byte(base), []byte(form), body)
}

// mediaType returns the type without its parameters, and those.
func mediaType(header string) (base string, params map[string]string) {
	if strings.Contains(header, ";") {
		if base, params, err := mime.ParseMediaType(header); err == nil {
			return base, params
		}
	}
	return strings.ToLower(strings.TrimSpace(header)), nil
}

// partsOf returns a text that stands for a multipart body without its boundary, which clients make up for each attempt.
func partsOf(body []byte, boundary string) ([]byte, error) {
	if boundary == "" || !bytes.HasPrefix(body, []byte("--"+boundary)) || !bytes.HasSuffix(bytes.TrimRight(body, "\r\n"), []byte("--"+boundary+"--")) {
		return nil, errors.New("something is outside the parts")
	}
	var out []byte
	parts := multipart.NewReader(bytes.NewReader(body), boundary)
	for {
		part, err := parts.NextRawPart()
		if errors.Is(err, io.EOF) && out != nil {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		content, err := io.ReadAll(part)
		if err != nil {
			return nil, err
		}
		out = binary.AppendUvarint(out, uint64(len(part.Header)))
		for _, name := range slices.Sorted(maps.Keys(part.Header)) {
			out = appendText(out, name)
			out = appendText(out, strings.Join(part.Header[name], "\n"))
		}
		out = appendText(out, content)
	}
}
