package idemhttp

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"strconv"

	"github.com/holdfast-go/holdfast/idem"
)

// envelopeV1 is: this byte, whether the body went above the limit, the status, the number of headers, for each its name
// and the number of its values and those, and the body. Numbers are varints, and a text comes after its length.
const envelopeV1 = 1

// encode returns what is stored of a response.
func (rec *recorder) encode(keep []string) []byte {
	size := len(rec.body) + 16
	var kept []string
	for _, name := range keep {
		if values := rec.sent[name]; len(values) > 0 {
			kept = append(kept, name)
			size += len(name) + len(values[0]) + 8
		}
	}
	out := append(make([]byte, 0, size), envelopeV1, 0)
	if rec.over {
		out[1] = 1
	}
	out = binary.AppendUvarint(out, uint64(rec.status)) //nolint:gosec // 3 digits
	out = binary.AppendUvarint(out, uint64(len(kept)))
	for _, name := range kept {
		out = appendText(out, name)
		out = binary.AppendUvarint(out, uint64(len(rec.sent[name])))
		for _, value := range rec.sent[name] {
			out = appendText(out, value)
		}
	}
	return append(out, rec.body...)
}

func appendText[S ~string | ~[]byte](out []byte, text S) []byte {
	return append(binary.AppendUvarint(out, uint64(len(text))), text...)
}

// stored is a response that was kept.
type stored struct {
	over   bool
	status int
	header http.Header
	body   []byte
}

func decode(envelope []byte) (*stored, error) {
	if len(envelope) < 2 || envelope[0] != envelopeV1 || envelope[1] > 1 {
		return nil, fmt.Errorf("%w: %w", idem.ErrResult, errEnvelope)
	}
	in := reader{rest: envelope[2:]}
	s := &stored{over: envelope[1] == 1, status: in.number(), header: http.Header{}}
	for range in.number() {
		name := in.text()
		for range in.number() {
			if in.failed {
				break
			}
			s.header[name] = append(s.header[name], in.text())
		}
		if in.failed {
			break
		}
	}
	s.body = in.rest
	if in.failed || s.status < 200 || s.status > 999 {
		return nil, fmt.Errorf("%w: %w", idem.ErrResult, errEnvelope)
	}
	return s, nil
}

// reader takes an envelope apart. Every number in it is bounded by what is left, so that none makes it work long.
type reader struct {
	rest   []byte
	failed bool
}

func (r *reader) number() int {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 || n > 1<<31-1 {
		r.failed, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[size:]
	return int(n) //nolint:gosec // bounded above
}

func (r *reader) text() string {
	n := r.number()
	if n > len(r.rest) {
		r.failed, r.rest = true, nil
		return ""
	}
	text := string(r.rest[:n])
	r.rest = r.rest[n:]
	return text
}

// send replays the response.
func (s *stored) send(w http.ResponseWriter, method, marker string) {
	h := w.Header()
	for name, values := range s.header {
		h[name] = values
	}
	if hasBody(s.status) {
		if _, ok := s.header["Content-Type"]; !ok {
			h["Content-Type"] = nil // the first response had none, and no guess is made now
		}
		if method != http.MethodHead || len(s.body) > 0 {
			h.Set("Content-Length", strconv.Itoa(len(s.body)))
		}
	}
	h.Set(marker, "true")
	w.WriteHeader(s.status)
	if hasBody(s.status) {
		_, _ = w.Write(s.body)
	}
}
