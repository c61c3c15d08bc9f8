package idemhttp

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
)

// Options set up a [Middleware]. The zero value is ready to use.
type Options struct {
	// AuthorizeReplay is asked before a stored answer is sent: what the caller might see when it was made, it might not see
	// now. An error refuses the replay with 403. It is not asked before the handler runs, which authorizes by itself.
	// Default: every repetition in the scope gets the answer.
	AuthorizeReplay func(r *http.Request) error
	// CanonicalJSON compares JSON bodies by their canonical form, so that a retry may order members and set white space
	// differently. Numbers are compared by their text: 1 and 1.0 differ. A body that has no canonical form, such as one with
	// a member twice, also in two cases, is compared by its bytes. Default: all bodies are compared by their bytes.
	CanonicalJSON bool
	// ErrorLog is told of each refusal that is the service's own trouble, and not the client's: the cause of a status from 500
	// on, at level Error, or Warn for 503. The client is not told it. What a client that has hung up made fail is left out.
	// It never holds a key. Default: [slog.Default], as net/http logs what it cannot tell the client.
	ErrorLog *slog.Logger
	// Headers are response headers to keep besides [DefaultHeaders]. Credentials, cookies and headers of the connection are
	// not kept even if they are listed. Default: none.
	Headers []string
	// KeyHeaders are request headers that may hold the key besides Idempotency-Key, such as X-Idempotency-Key. If several
	// are given they must agree. Default: none.
	KeyHeaders []string
	// KeyOptional lets requests without a key through, unprotected. Default: they are refused with 400.
	KeyOptional bool
	// Linger is how long the work may go on when the client has hung up or the request's context has ended otherwise.
	// Default: 0, the handler's context ends with the request's, and what it did is rolled back unless it returns a response
	// all the same.
	Linger time.Duration
	// MaxRequest is the size in bytes above which a request body is refused with 413. Default: 1 MiB.
	MaxRequest int64
	// MaxResponse is the size in bytes above which a response body is dropped, since it waits for the commit in memory: the
	// work stands, and the first caller is told as well that its answer was not retained. What is smaller is sent to the
	// first caller whole; whether it is kept for repetitions too, idem.Options.MaxBody decides. Default: 8 MiB.
	MaxResponse int
	// Methods are those that need a key. Requests with others pass. Default: POST and PATCH.
	Methods []string
	// Name returns the operation that a key is for: a route, so that it stays a metric label of low cardinality. The path
	// itself need not be in it, since it is part of the fingerprint. To change it makes all keys new. Default: the method
	// and the route that [http.ServeMux] matched, or the method alone where there is none yet.
	Name func(r *http.Request) string
	// Observer is told of every refusal, see [EventRefused]. Default: silent.
	Observer holdfast.Observer
	// Refuse writes a refusal. It may send another status or body, or what the caller may have in place of an answer that
	// was not retained. Default: [Problem.Write].
	Refuse func(w http.ResponseWriter, r *http.Request, p *Problem)
	// Release tells 4xx statuses that free the key although [idem.Failure.Stored] would keep them. Default: none.
	Release func(status int) bool
	// ReplayHeader is set to "true" in the answer to a repetition. Default: "Idempotency-Replayed".
	ReplayHeader string
}

// DefaultHeaders are the response headers that are kept and replayed.
var DefaultHeaders = []string{
	"Content-Disposition", "Content-Encoding", "Content-Language", "Content-Type", "Etag", "Last-Modified", "Link", "Location",
	"Vary",
}

// neverKept are credentials, headers of one connection, and what is true only of the first response.
var neverKept = []string{
	"Set-Cookie", "Set-Cookie2", "Cookie", "Authorization", "Proxy-Authorization", "Www-Authenticate", "Proxy-Authenticate",
	"Authentication-Info", "Proxy-Authentication-Info",
	"Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
	"Content-Length", "Date",
}

// never tells headers that are not kept. Rate limits are those of the first request.
func never(name string) bool {
	return slices.Contains(neverKept, name) || strings.Contains(name, "Ratelimit") || strings.Contains(name, "Rate-Limit")
}

// keyHeader is the one of the IETF draft.
const keyHeader = "Idempotency-Key"

// settle fills in the defaults.
func (o Options) settle() (Options, error) {
	o.Headers = canonical(slices.Concat(DefaultHeaders, o.Headers))
	o.Headers = slices.DeleteFunc(o.Headers, never)
	o.KeyHeaders = canonical(append([]string{keyHeader}, o.KeyHeaders...))
	if len(o.Methods) == 0 {
		o.Methods = []string{http.MethodPost, http.MethodPatch}
	}
	if o.MaxRequest == 0 {
		o.MaxRequest = 1 << 20
	}
	if o.MaxResponse == 0 {
		o.MaxResponse = 8 << 20
	}
	if o.Name == nil {
		o.Name = routeOf
	}
	if o.Refuse == nil {
		o.Refuse = func(w http.ResponseWriter, _ *http.Request, p *Problem) { p.Write(w) }
	}
	if o.ReplayHeader == "" {
		o.ReplayHeader = "Idempotency-Replayed"
	}
	if o.Linger < 0 || o.MaxRequest < 0 || o.MaxResponse < 0 {
		return o, errors.New("idemhttp: Options.Linger, MaxRequest and MaxResponse must not be negative")
	}
	for _, name := range slices.Concat(o.Headers, o.KeyHeaders, []string{o.ReplayHeader}) {
		if !token(name) {
			return o, fmt.Errorf("idemhttp: Options: %q is not the name of a header", name)
		}
	}
	return o, nil
}

// canonical spells names as [http.Header] does, each once, in order.
func canonical(names []string) []string {
	list := make([]string, 0, len(names))
	for _, name := range names {
		list = append(list, http.CanonicalHeaderKey(name))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func token(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}

// routeOf is the default of Options.Name. A pattern may have a method of its own.
func routeOf(r *http.Request) string {
	if r.Pattern == "" {
		return r.Method
	}
	if _, path, ok := strings.Cut(r.Pattern, " "); ok {
		return r.Method + " " + strings.TrimLeft(path, " \t")
	}
	return r.Method + " " + r.Pattern
}
