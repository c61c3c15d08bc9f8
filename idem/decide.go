package idem

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
)

// A Decision is what a person found out about a key that has no answer: [AsCompleted], [AsFailed] or [AsNotDone].
type Decision struct {
	how    string
	answer func(limit int) (entry, error) // nil if the operation is to run again
}

// AsCompleted says that the operation was done, and that value is its answer: of the type that its closure returns.
func AsCompleted(value any) Decision {
	return Decision{"completed", func(limit int) (entry, error) {
		codec, body, err := encode(value)
		if raw, ok := value.([]byte); ok {
			codec, body, err = codecBytes, raw, nil
		}
		if len(body) > limit {
			codec, body = codecNone, nil
		}
		return entry{state: stateCompleted, codec: codec, stored: body}, err
	}}
}

// AsFailed says that the operation was not done and is not to be, and that f is its answer.
func AsFailed(f *Failure) Decision {
	return Decision{"failed", func(limit int) (entry, error) {
		if f == nil || !f.Stored() {
			return entry{}, errors.New("idem: AsFailed: the failure is nil, or one that is not stored: see Failure.Stored")
		}
		stored, err := f.encode(limit)
		return entry{state: stateFailed, codec: codecJSON, status: f.Status, stored: stored}, err
	}}
}

// AsNotDone says that the step which nobody knew about did not take effect: the next call makes it, with the same child key. Steps
// that are recorded stay.
func AsNotDone() Decision { return Decision{how: "not done"} }

// A ResolvedError tells an observer of a decision: see [EventResolved]. It is no failure.
type ResolvedError struct {
	// By is who decided, and How is "completed", "failed" or "not done".
	By, How string
}

func (e *ResolvedError) Error() string { return fmt.Sprintf("idem: resolved as %s by %s", e.How, e.By) }

// Resolve decides about a key that is Unknown or Pending, or Running with a lease that has run out, as [Leased.List] shows them, and
// reports whether there was one. by says who decides and why, for the observer. An execution that still thinks it has the key is
// fenced off: it can neither store an answer nor commit.
//
// It returns an [*InFlightError] where somebody is at the key, [*KeyError] if by is empty, [ErrResult] and errors of the store. After
// any error it is safe to call it again.
func (l *leased) Resolve(ctx context.Context, id ID, by string, d Decision) (resolved bool, err error) {
	if l.err != nil {
		return false, l.err
	}
	if err := validatePart("by", by); err != nil {
		return false, err
	}
	if d.how == "" {
		return false, errors.New("idem: Resolve: the decision is empty: take AsCompleted, AsFailed or AsNotDone")
	}
	var e entry
	if d.answer != nil {
		if e, err = d.answer(l.o.MaxBody); err != nil {
			return false, err
		}
	}
	list, err := l.store.List(ctx, Filter{ID: id})
	if err != nil || len(list) == 0 || !list[0].State.open() {
		return false, err
	}
	was := list[0]
	c := callOf(was)
	c.nonce = rand.Int64()
	r, ok, err := l.store.Take(ctx, Taking{Claim: Claim{ID: id, Nonce: c.nonce, Lease: l.lo.Lease}, Was: was, Early: true})
	if err != nil {
		return false, err
	}
	if !ok {
		return false, l.refuse(ctx, c, &InFlightError{RetryAfter: max(was.Left, retryAfter)})
	}
	c.found(r)
	defer l.line.Wake(c.digest.String())
	if ok, err = l.decide(ctx, c, r, e); err != nil {
		return false, err
	}
	l.observe(ctx, EventResolved, c, &ResolvedError{By: by, How: d.how})
	return ok, nil
}

// decide puts a decision into force on a key that was taken for it.
func (l *leased) decide(ctx context.Context, c *call, r Record, e entry) (held bool, err error) {
	run := &Run{l: l, c: c, term: Term{ID: r.ID, Nonce: r.Nonce, Epoch: r.Epoch}, input: r.Input, steps: steps{stored: r.Steps}}
	if e.state != 0 {
		if e, err = l.seal(ctx, c, r.Fingerprint, e); err != nil {
			return false, err
		}
		return l.store.Complete(ctx, run.term, e.answer(), l.o.TTL)
	}
	if err := run.load(ctx); err != nil {
		return false, err
	}
	if name := run.steps.unsettled(); name != "" {
		run.forget(name)
	}
	if run.steps.none() && r.Input == nil {
		return l.store.Release(ctx, run.term)
	}
	if held, err = run.mark(ctx); err != nil || !held {
		return held, err
	}
	return l.store.Park(ctx, run.term, Parking{State: Pending, Fresh: true})
}
