package optimistic

import (
	"encoding/json"
	"errors"
	"net/http"
)

// Require returns [ErrRequired] if the request has no precondition: an answer of 428 says to the client that its write would
// otherwise overwrite what others wrote.
func (c Condition) Require() error {
	if c.Empty() {
		return ErrRequired
	}
	return nil
}

// Status returns the HTTP status of a refusal, and the version for the ETag of its answer: 412 for a failed precondition and for a
// conflict, 428 for a missing precondition or version, 400 for one that cannot be read, 404 for a row that is not there, 503
// when too many races were lost. It returns 0 for other errors.
//
// A conflict is 412 since the version came by If-Match. A service that takes it from the body may prefer 409.
func Status(err error) (status int, current Version) {
	var conflict *ConflictError
	var precondition *PreconditionError
	switch {
	case err == nil:
		return 0, Version{}
	case errors.Is(err, ErrContended):
		return http.StatusServiceUnavailable, Version{}
	case errors.As(err, &precondition):
		return precondition.Status(), precondition.Current
	case errors.As(err, &conflict):
		return http.StatusPreconditionFailed, conflict.Current
	case errors.Is(err, ErrRequired), errors.Is(err, ErrNoVersion):
		return http.StatusPreconditionRequired, Version{}
	case errors.Is(err, ErrMalformed):
		return http.StatusBadRequest, Version{}
	case errors.Is(err, ErrNotFound):
		return http.StatusNotFound, Version{}
	}
	return 0, Version{}
}

var details = map[int]string{
	http.StatusPreconditionFailed:   "it was changed by somebody else: read it again and decide anew",
	http.StatusPreconditionRequired: "send If-Match with the ETag that was read, or If-None-Match: * to create",
	http.StatusBadRequest:           "the precondition or the version cannot be read: an entity tag stands in double quotes, as it came",
	http.StatusNotFound:             "there is no such thing",
	http.StatusServiceUnavailable:   "too many others change it right now: try again",
}

// Refuse answers a request with the status of a refusal, the current ETag where it is known, and a body of
// application/problem+json. It reports whether err was one: if not, nothing is written.
func Refuse(w http.ResponseWriter, err error) bool {
	status, current := Status(err)
	if status == 0 {
		return false
	}
	detail := details[status]
	if status == http.StatusPreconditionFailed && !current.IsSet() {
		detail = "there is no such thing, or no longer"
	}
	text, _ := json.Marshal(map[string]any{ // strings and a number always encode
		"type": "about:blank", "title": http.StatusText(status), "status": status, "detail": detail,
	})
	h := w.Header()
	if etag := current.ETag(); etag != "" {
		h.Set("ETag", etag)
	}
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(text)
	return true
}
