package idemhttp

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"

	"github.com/holdfast-go/holdfast/idem"
)

// A Leased is the middleware for handlers that call other services, such as a payment provider: no transaction is open while they
// do. It does the work of a request once for each key, and is safe for concurrent use. H is what a handler gets: an
// [*idem.RunTx] of the database that the keys are in, or an [*idem.Run] of another store, which has no transaction.
type Leased[H idem.Runner] struct {
	*gate

	keys *idem.Leased[H]
}

// NewLeased returns the middleware that keeps answers in keys. scope is required. Nil options work. What cannot be used is reported
// by [Leased.Check], and by every request with 500.
func NewLeased[H idem.Runner](keys *idem.Leased[H], scope Scope, o *Options) *Leased[H] {
	return &Leased[H]{gate: newGate(keys == nil, scope, o), keys: keys}
}

// Check reports, for the start of a service, whether the middleware is set up soundly and its keys can be used. See
// [idem.Keys.Check] for the errors.
func (m *Leased[H]) Check(ctx context.Context) error {
	if m.err != nil {
		return m.err
	}
	return m.keys.Check(ctx)
}

// Handler returns a handler that calls fn with the run of the request's key. Calls to others belong into [idem.Step] with that run,
// and writes into [Finish]. The response is stored, by Finish or when fn has returned, and sent after that.
//
//   - A status below 400 is stored. No status is 200.
//   - A 4xx that another attempt cannot change is stored and replayed; see [idem.Failure.Stored] and Options.Release.
//   - Any other status, and an error, is no answer. If no step has begun the key is free. If all that began are recorded, the next
//     request with the key goes on from them. What fn wrote to w is sent if its status is 400 or above, otherwise 500.
//   - If a step has begun and nobody knows what became of it, the client gets 503 with [CodeOutcomeUnknown], whatever fn wrote or
//     returned, and the key is kept: a later request with it asks Reconcile of that step.
//   - A returned [*idem.Failure] is a response, as in [Middleware.Handler].
//
// While another request with the key is at it, the client gets 409, with what is left of its lease as Retry-After, or waits for
// the answer if idem.LeaseOptions.Wait says so. A process that dies leaves the key until its lease has run out; the next request takes
// over. fn gets a context that ends when the lease is lost.
//
// A request without a key where it is optional, or with a method that needs none, runs under a key that nobody else has.
func (m *Leased[H]) Handler(fn func(w http.ResponseWriter, r *http.Request, run H) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if m.err != nil || fn == nil {
			m.refuse(w, r, misconfigured(errors.Join(m.err, nilFunc(fn == nil))))
			return
		}
		m.serve(w, r, fn)
	})
}

// Wrap is [Leased.Handler] for a handler that knows nothing of it. next reaches its run with [RunOf]. Requests that need no key go to
// next as they are.
func (m *Leased[H]) Wrap(next http.Handler) http.Handler {
	fn := func(w http.ResponseWriter, r *http.Request, _ H) error {
		next.ServeHTTP(w, r)
		return nil
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case m.err != nil || next == nil:
			m.refuse(w, r, misconfigured(errors.Join(m.err, nilFunc(next == nil))))
		case m.guards(r):
			m.serve(w, r, fn)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// ErrNoRun is what [RunOf] and [Finish] return outside a handler that has a run of that type.
var ErrNoRun = errors.New("idemhttp: no run of this type in the context: the request has no key, or its handler is not behind Leased.Handler or Leased.Wrap")

type runKey[H idem.Runner] struct{}

// RunOf returns the run of the request that ctx belongs to, for handlers behind [Leased.Wrap]. H is that of the keys. It returns
// [ErrNoRun] otherwise. The run ends with the handler.
func RunOf[H idem.Runner](ctx context.Context) (H, error) {
	run, ok := ctx.Value(runKey[H]{}).(H)
	if !ok {
		return run, ErrNoRun
	}
	return run, nil
}

// serve does the request under its key.
func (m *Leased[H]) serve(w http.ResponseWriter, r *http.Request, fn handler[H]) {
	x := &exchange{m: m.gate, w: w, r: r}
	key, p := m.keyOf(x)
	if p != nil {
		m.refuse(w, r, p)
		return
	}
	ctx, stop := m.context(r)
	defer stop()
	var made []byte
	res, err := idem.DoLeased(ctx, m.keys, key, func(ctx context.Context, run H) (_ []byte, err error) {
		ctx = context.WithValue(context.WithValue(ctx, runKey[H]{}, run), exchangeKey{}, x)
		call := func(w http.ResponseWriter, r *http.Request) error { return fn(w, r, run) }
		made, err = x.attempt(ctx, call, noConflict)
		return made, err
	})
	if err == nil && !res.Replayed && !x.rec.stored && !bytes.Equal(res.Body, made) {
		err = errFinished
	}
	if inDoubt(err) || !x.conclude(res, err) {
		m.refuse(w, r, leasedProblem(err, x.rec != nil))
	}
}

// errFinished: a repetition has no response to get.
var errFinished = fmt.Errorf("%w: the handler called idem.Finish, which stores no response: call idemhttp.Finish", idem.ErrResult)

// keyOf returns the key of the request, or one of its own where it needs none.
func (m *Leased[H]) keyOf(x *exchange) (idem.Key, *Problem) {
	if m.guards(x.r) {
		return x.identify()
	}
	scope, err := m.scope(x.r)
	if err != nil {
		return idem.Key{}, noScope(err)
	}
	return idem.Key{Scope: scope, Name: m.o.Name(x.r), Value: "unkeyed " + rand.Text()}, x.read()
}

// noConflict is for a handler that is not run again after a conflict: it has no transaction open.
func noConflict(error) bool { return false }
