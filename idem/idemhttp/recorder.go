package idemhttp

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/idem"
)

// ErrHijack is what a handler gets that takes the connection: nobody could store what it sends there, and a repetition
// would have no answer. It matches [http.ErrNotSupported].
var ErrHijack = fmt.Errorf("idemhttp: the response is stored before it is sent, so the connection cannot be hijacked or upgraded: serve that without a key: %w", http.ErrNotSupported)

// A recorder keeps a response until its transaction has ended.
type recorder struct {
	w      http.ResponseWriter
	header http.Header // what the handler sees
	sent   http.Header // what it was with the status
	status int         // 0 until there is one
	body   []byte
	limit  int
	over   bool  // the body went above the limit, and is dropped
	misuse error // ends the transaction
	stored bool  // by Finish: nothing is taken any more
}

// newRecorder begins with the headers that those before it have set.
func newRecorder(w http.ResponseWriter, limit int) *recorder {
	header := w.Header().Clone()
	if header == nil {
		header = http.Header{}
	}
	return &recorder{w: w, header: header, limit: limit}
}

// copy returns one that has what rec has, and takes no part in what becomes of it.
func (rec *recorder) copy() *recorder {
	c := *rec
	c.header, c.sent, c.body = rec.header.Clone(), rec.sent.Clone(), slices.Clone(rec.body)
	return &c
}

func (rec *recorder) Header() http.Header { return rec.header }

// WriteHeader drops 1xx: they would be sent before the commit, once for each attempt.
func (rec *recorder) WriteHeader(status int) {
	switch {
	case status < 100 || status > 999:
		panic(fmt.Sprintf("idemhttp: invalid status %d", status)) // as net/http does
	case rec.status != 0:
	case status == http.StatusSwitchingProtocols:
		rec.misuse = ErrHijack
	case status >= 200:
		rec.status, rec.sent = status, rec.header.Clone()
	}
}

func (rec *recorder) Write(p []byte) (int, error) {
	if rec.status == 0 {
		rec.WriteHeader(http.StatusOK)
	}
	switch {
	case rec.stored:
		return 0, errStored
	case !hasBody(rec.status):
		return 0, http.ErrBodyNotAllowed
	case rec.over:
	case len(rec.body)+len(p) > rec.limit:
		rec.over, rec.body = true, nil
	default:
		rec.body = append(rec.body, p...)
	}
	return len(p), nil
}

// Flush sends nothing: that has to wait for the commit. As in net/http, it fixes the status and the headers.
func (rec *recorder) Flush() {
	if rec.status == 0 {
		rec.WriteHeader(http.StatusOK)
	}
}

// Hijack refuses.
func (rec *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, ErrHijack }

// SetReadDeadline and SetWriteDeadline are those of the connection, for [http.ResponseController].
func (rec *recorder) SetReadDeadline(t time.Time) error {
	return http.NewResponseController(rec.w).SetReadDeadline(t)
}

func (rec *recorder) SetWriteDeadline(t time.Time) error {
	return http.NewResponseController(rec.w).SetWriteDeadline(t)
}

// hasBody tells the statuses that come with one.
func hasBody(status int) bool {
	return status != http.StatusNoContent && status != http.StatusNotModified
}

// fail makes a response of a failure that the handler returned.
func (rec *recorder) fail(f *idem.Failure) {
	*rec = *newRecorder(rec.w, rec.limit)
	status := f.Status
	if status < http.StatusBadRequest || status > 599 {
		status = http.StatusUnprocessableEntity
	}
	if f.Body == nil {
		(&Problem{Status: status, Code: CodeOperationFailed, Detail: f.Error()}).Write(rec)
		return
	}
	rec.WriteHeader(status)
	_, _ = rec.Write(f.Body)
}

// finish settles what net/http would decide while it sends, so that the first answer and a replay are the same.
func (rec *recorder) finish(method string) {
	rec.Flush()
	h := rec.sent
	h.Del("Transfer-Encoding")
	if !hasBody(rec.status) {
		return
	}
	if _, ok := h["Content-Type"]; !ok && h.Get("Content-Encoding") == "" && len(rec.body) > 0 {
		h.Set("Content-Type", http.DetectContentType(rec.body))
	}
	if rec.trailers() != nil {
		h.Del("Content-Length") // which excludes them
	} else if method != http.MethodHead || len(rec.body) > 0 {
		h.Set("Content-Length", strconv.Itoa(len(rec.body)))
	}
}

// trailers returns the headers that are set after the body, or nil.
func (rec *recorder) trailers() http.Header {
	var trailers http.Header
	add := func(name string) {
		if values, ok := rec.header[name]; ok {
			if trailers == nil {
				trailers = http.Header{}
			}
			trailers[name] = values
		}
	}
	for _, line := range rec.sent["Trailer"] {
		for name := range strings.SplitSeq(line, ",") {
			add(http.CanonicalHeaderKey(strings.TrimSpace(name)))
		}
	}
	for name := range rec.header {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			add(name)
		}
	}
	return trailers
}

// send sends the response. That the client may be gone does not matter: a repetition gets it.
func (rec *recorder) send() {
	h := rec.w.Header()
	clear(h)
	maps.Copy(h, rec.sent)
	rec.w.WriteHeader(rec.status)
	if hasBody(rec.status) {
		_, _ = rec.w.Write(rec.body)
	}
	maps.Copy(h, rec.trailers())
}

// errEnvelope: what is stored is not a response.
var errEnvelope = errors.New("idemhttp: the stored answer is not a response of this package")
