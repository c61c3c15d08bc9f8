package idem

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/tx"
)

// DoLeased does the work of an operation once that leaves the database, such as a charge at a payment provider: no transaction is
// open meanwhile. It claims key, with a lease that is renewed, calls fn, and stores the answer before it returns it. A repetition
// gets the stored answer, byte for byte, without a write. A duplicate at the same moment never runs fn: it waits, bounded by
// LeaseOptions.Wait, or is refused with [ErrInFlight].
//
// Calls to others belong into [Step], and writes into [Finish], whose transaction stores the answer with them. Where a process dies
// or loses its lease, the next call with the key takes over and goes on from the steps that are recorded; LeaseOptions.OnExpiry says
// how. Whoever lost the lease gets a [*LeaseLostError], also as the cause of ctx, and can neither store an answer nor commit.
//
// An error of fn frees the key if no step has begun. If all that began are recorded the key is Pending, and the next call goes on
// from them. If one has begun and nobody knows what became of it, the key is Unknown and the error an [*UnknownError], whatever fn
// returns. A [*Failure] to be stored is the answer, unless a step is unknown. A panic or runtime.Goexit in fn does the same as an
// error, and goes on up.
//
// It costs one round trip before fn and one after it; a repetition costs one, and a takeover two before fn.
//
// Besides the errors of fn it returns [*Failure], [*KeyError], [*MismatchError], [*InFlightError], [*UnknownError],
// [*LeaseLostError], [ErrKeyExpired], [ErrNotRetained], [ErrNotRecorded], [ErrInTransaction], [ErrResult] and [ErrStoreUnavailable].
// Whatever it is, a retry with the same key is safe.
func DoLeased[H Runner, R any](
	ctx context.Context, keys *Leased[H], key Key, fn func(ctx context.Context, run H) (R, error),
) (Result[R], error) {
	return doLeased(ctx, keys, key, nil, fn)
}

func doLeased[H Runner, R any](
	ctx context.Context, keys *Leased[H], key Key, input []byte, fn func(ctx context.Context, run H) (R, error),
) (Result[R], error) {
	if fn == nil {
		return Result[R]{}, tx.ErrNilFunc
	}
	var value R
	e, replayed, err := keys.do(ctx, key, input, encodingRun(keys, fn, &value))
	return result(&keys.core, e, value, replayed, err)
}

// leasedWork is the closure of the caller, with its result encoded.
type leasedWork func(run *Run) (entry, error)

func encodingRun[H Runner, R any](keys *Leased[H], fn func(ctx context.Context, run H) (R, error), value *R) leasedWork {
	return func(run *Run) (entry, error) {
		v, err := fn(run.ctx, keys.wrap(run))
		if run.finished != nil {
			return finishedEntry(run, value, err)
		}
		if err != nil {
			return entry{}, err
		}
		codec, body, err := encode(v)
		*value = v
		return entry{state: stateCompleted, codec: codec, body: body, stored: body}, err
	}
}

// finishedEntry returns the answer that [Finish] has stored, whatever the closure made of it.
func finishedEntry[R any](run *Run, value *R, err error) (entry, error) {
	e := *run.finished
	switch v, ok := run.value.(R); {
	case run.failed != nil:
		return e, run.failed
	case err != nil:
		return e, toldError{err, holdfast.Applied}
	case ok:
		*value = v
		return e, nil
	}
	v, err := decode[R](e.codec, e.body)
	if err != nil {
		return e, toldError{err, holdfast.Applied}
	}
	*value = v
	return e, nil
}

// do runs the operation, or finds the answer of another call.
func (l *leased) do(ctx context.Context, key Key, input []byte, fn leasedWork) (e entry, replayed bool, err error) {
	if l.err != nil {
		return entry{}, false, l.err
	}
	if err := key.validate(); err != nil {
		return entry{}, false, err
	}
	if holdfast.LockScopeOf(ctx) != nil {
		return entry{}, false, ErrInTransaction
	}
	if err := context.Cause(ctx); err != nil {
		return entry{}, false, toldError{err, holdfast.NotApplied}
	}
	c := newCall(key)
	if l.within(ctx, c) {
		return entry{}, false, l.nested(ctx, c)
	}
	return l.together(ctx, c, func() (entry, bool, error) { return l.alone(ctx, c, input, fn) })
}

// alone claims the key until there is an answer, and runs the operation if it is ours.
func (l *leased) alone(ctx context.Context, c *call, input []byte, fn leasedWork) (e entry, replayed bool, err error) {
	sealed, err := l.sealPart(ctx, c, c.key.Fingerprint.bytes(), inputPart, input)
	if err != nil {
		return entry{}, false, err
	}
	ask := Claim{
		ID: c.digest, Scope: c.key.Scope, Name: c.key.Name, Fingerprint: c.key.Fingerprint.bytes(), Input: sealed,
		Nonce: c.nonce, Lease: l.lo.Lease,
	}
	var w vigil
	defer w.leave()
	for try, missed := 1, 0; ; try++ {
		anchor := l.clock.Read()
		r, err := l.store.Claim(ctx, ask)
		if err != nil {
			return entry{}, false, l.unclaimed(ctx, c, err)
		}
		c.found(r)
		v, refusal := l.judge(c)
		if v == claimed && r.Nonce == c.nonce {
			w.leave()
			e, err = l.execute(ctx, c, r, anchor, fn)
			return e, false, err
		}
		if v == claimed || r.State.open() && r.Left <= 0 && !errors.Is(refusal, ErrMismatch) {
			anchor = l.clock.Read()
			r, ok, err := l.take(ctx, c, ask, r)
			switch {
			case err != nil:
				return entry{}, false, err
			case ok:
				w.leave()
				e, err = l.execute(ctx, c, r, anchor, fn)
				return e, false, err
			}
			if missed++; missed == 1 {
				continue
			}
			v = busy
		}
		if v != busy {
			return l.answer(ctx, c, v, refusal)
		}
		if inside, _ := c.inside(ctx, nil, v); inside {
			return entry{}, false, l.nested(ctx, c)
		}
		if err := l.pauseLeased(ctx, c, &w, try); err != nil {
			return entry{}, false, err
		}
	}
}

// found puts a record into c, for the judge.
func (c *call) found(r Record) {
	c.lock = lockHeld
	if r.State == 0 {
		c.lock = lockTaken // a transaction is at it, or one that asked at the same moment
	}
	c.row = row{
		entry: entry{state: int(r.State), codec: r.Answer.Codec, status: r.Answer.Status, body: r.Answer.Body},
		fp:    r.Fingerprint, nonce: r.Nonce, expired: r.Over, left: r.Left, note: r.Note,
	}
}

// take takes a key over, if the policy does not forbid it.
func (l *leased) take(ctx context.Context, c *call, ask Claim, was Record) (r Record, ok bool, err error) {
	blocked := l.lo.OnExpiry == Block && (was.State == Running || was.State == Unknown)
	if blocked && was.State == Unknown {
		return Record{}, false, &UnknownError{Name: was.Name, Note: was.Note}
	}
	r, ok, err = l.store.Take(ctx, Taking{Claim: ask, Was: was, Reuse: l.o.AllowReuse})
	switch {
	case err != nil:
		return Record{}, false, l.unclaimed(ctx, c, err)
	case ok && blocked:
		return Record{}, false, l.block(ctx, c, r)
	}
	return r, ok, nil
}

// block leaves a key that was just taken to a person.
func (l *leased) block(ctx context.Context, c *call, r Record) error {
	unknown := &UnknownError{Name: r.Name, Note: "its execution ended without a word"}
	ctx, cancel := cleanup(ctx)
	defer cancel()
	_, err := l.store.Park(ctx, Term{ID: r.ID, Nonce: r.Nonce, Epoch: r.Epoch}, Parking{State: Unknown, After: forGood, Note: unknown.Note})
	l.line.Wake(r.ID.String())
	c.attempt = r.Attempts
	unknown.Err = err
	l.observe(ctx, EventUnknown, c, unknown)
	return unknown
}

// unclaimed is the error of a claim that failed. It may have been granted: then it is given back, in the background, and runs out if
// that fails too.
func (l *leased) unclaimed(ctx context.Context, c *call, err error) error {
	go func() {
		ctx, cancel := cleanup(ctx)
		defer cancel()
		_, _ = l.store.Release(ctx, Term{ID: c.digest, Nonce: c.nonce})
	}()
	class := tx.Lost
	if db, ok := l.store.(interface{ Classify(err error) tx.Class }); ok {
		class = db.Classify(err)
	}
	err = fmt.Errorf("idem: claim the key: %w", err)
	if cause := context.Cause(ctx); cause != nil {
		err = errors.Join(cause, err)
	}
	return unavailable(&tx.AbortError{Err: err, Class: class, Attempts: 1})
}

// forGood is how long a key waits for a person.
const forGood = 100 * 365 * 24 * time.Hour

// due is left, or 0 where nobody comes back to it by himself.
func due(left time.Duration) time.Duration {
	if left > forGood/2 {
		return 0
	}
	return left
}

// backoff is how long a key is left alone after that many executions in vain.
func (l *leased) backoff(attempts int) time.Duration {
	wait := l.lo.RetryAfter << min(max(attempts-1, 0), 30)
	if wait <= 0 || wait > l.lo.LongestRetry || l.lo.RetryAfter > math.MaxInt64>>30 {
		return l.lo.LongestRetry
	}
	return wait
}

// execute runs the operation under the record r, which is ours, and stores its answer.
func (l *leased) execute(ctx context.Context, c *call, r Record, anchor clock.Moment, fn leasedWork) (entry, error) {
	c.found(r)
	run := l.hold(ctx, c, r, anchor)
	kind := EventClaimed
	if r.Attempts > 1 {
		kind = EventTakenOver
	}
	l.observe(ctx, kind, c, nil)
	if c.work != nil {
		c.work()
	}
	defer l.line.Wake(c.digest.String())
	return run.conclude(ctx, fn)
}
