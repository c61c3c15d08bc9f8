package idemhttp

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/internal/bound"
)

// A Scope tells whose request it is: the tenant, account or caller, as the service's own authentication found out, never
// as the request claims. Nobody reads another scope's answers. An error or an empty text refuses the request with 403.
type Scope func(r *http.Request) (string, error)

// NoScope is the [Scope] of a service whose callers may all see each other's answers, such as one with a single caller.
func NoScope(*http.Request) (string, error) { return "everybody", nil }

// A gate is what every middleware has, whatever its keys are.
type gate struct {
	scope Scope
	o     Options
	err   error
}

// newGate checks what a middleware is made of.
func newGate(noKeys bool, scope Scope, o *Options) *gate {
	m := &gate{scope: scope}
	if o != nil {
		m.o = *o
	}
	m.o, m.err = m.o.settle()
	switch {
	case noKeys:
		m.err = errors.New("idemhttp: New needs keys, got nil")
	case scope == nil:
		m.err = errors.New("idemhttp: New needs a scope function, got nil: return the tenant or caller, or take NoScope")
	}
	return m
}

// A Middleware does the work of a request once for each key that clients send. It is safe for concurrent use.
type Middleware[T any] struct {
	*gate

	keys *idem.Keys[T]
}

// New returns the middleware that keeps answers in keys. scope is required. Nil options work. What cannot be used is
// reported by [Middleware.Check], and by every request with 500.
func New[T any](keys *idem.Keys[T], scope Scope, o *Options) *Middleware[T] {
	return &Middleware[T]{gate: newGate(keys == nil, scope, o), keys: keys}
}

// Check reports, for the start of a service, whether the middleware is set up soundly and its keys can be used. See
// [idem.Keys.Check] for the errors.
func (m *Middleware[T]) Check(ctx context.Context) error {
	if m.err != nil {
		return m.err
	}
	return m.keys.Check(ctx)
}

// Handler returns a handler that calls fn in the transaction in which the key is claimed and the response stored. The
// response is sent after the commit.
//
//   - A status below 400 commits. No status is 200.
//   - A 4xx that another attempt cannot change undoes what fn wrote in t, and is stored and replayed; see
//     [idem.Failure.Stored] and Options.Release.
//   - Any other status rolls back, frees the key, and is sent.
//   - A returned [*idem.Failure] is a response: its status, or 422 without one, and its body, or a [Problem] with its
//     message. What fn wrote to w before is dropped.
//   - Any other error rolls back and frees the key. What fn wrote to w is sent if its status is 400 or above, otherwise
//     500 or 503.
//
// fn runs again, with the request as it came and an empty w, after a serialization failure or a deadlock, which it must
// return as its error, wrapped or not. It must not call out to other services with an effect: see [idem.Do]. A panic
// rolls back, frees the key and goes on up.
//
// A request without a key where it is optional, or with a method that needs none, runs in a transaction too; any status
// from 400 rolls that back.
func (m *Middleware[T]) Handler(fn func(w http.ResponseWriter, r *http.Request, t T) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case m.err != nil || fn == nil:
			m.refuse(w, r, misconfigured(errors.Join(m.err, nilFunc(fn == nil))))
		case m.guards(r):
			m.once(w, r, fn)
		default:
			m.unkeyed(w, r, fn)
		}
	})
}

// Wrap is [Middleware.Handler] for a handler that knows nothing of it. next reaches the transaction with [Tx]; better, it
// calls [tx.DB.Do] with the context of the request, which joins the transaction, and has the whole request run again
// after a conflict. What it does in a transaction that it begins otherwise is outside the guarantee. Requests that need
// no key go to next as they are.
func (m *Middleware[T]) Wrap(next http.Handler) http.Handler {
	fn := func(w http.ResponseWriter, r *http.Request, _ T) error {
		next.ServeHTTP(w, r)
		return nil
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case m.err != nil || next == nil:
			m.refuse(w, r, misconfigured(errors.Join(m.err, nilFunc(next == nil))))
		case m.guards(r):
			m.once(w, r, fn)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func nilFunc(isNil bool) error {
	if isNil {
		return errors.New("idemhttp: the handler is nil")
	}
	return nil
}

// guards tells requests that are done once.
func (m *gate) guards(r *http.Request) bool {
	return slices.Contains(m.o.Methods, r.Method) && (!m.o.KeyOptional || m.hasKey(r.Header))
}

type txKey[T any] struct{ bound.ToTransaction }

// ErrNoTransaction is what [Tx] returns outside a handler that runs in a transaction of that type.
var ErrNoTransaction = errors.New("idemhttp: no transaction of this type in the context: the request has no key, or its handler is not behind Handler or Wrap")

// Tx returns the transaction of the request that ctx belongs to. It is for handlers behind [Middleware.Wrap]; T is that
// of the keys. It returns [ErrNoTransaction] otherwise, and never a connection outside the transaction. It ends with the
// handler.
func Tx[T any](ctx context.Context) (T, error) {
	t, ok := ctx.Value(txKey[T]{}).(T)
	if !ok {
		return t, ErrNoTransaction
	}
	return t, nil
}
