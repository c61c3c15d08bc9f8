package idem

import (
	"context"
	"errors"
	"fmt"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tx"
)

// errOvertaken: the answer could not be stored although the claim was ours. The transaction was rolled back. The next claim
// sees the answer of the other execution.
var errOvertaken = errors.New("idem: another execution of the key was faster, and this one was undone: call again for its answer")

// errMoved: the table is no longer that of the claim.
var errMoved = errors.New("idem: the closure changed search_path, so that the answer could not be stored beside the claim, and nothing was done: set Options.Schema")

// overtaken reports whether err, of a transaction, is that the answer of c could not be stored, and not that of a call in
// its closure.
func (c *call) overtaken(err error) bool { return c.store != nil && errors.Is(err, errOvertaken) }

// moved reports whether that is because the table is another one now. The primary key tells of another execution; a row of
// its own no other can have changed. In the place of an expired answer it cannot be told: see once.
func (c *call) moved(err error) bool {
	if !c.overtaken(err) || c.store.Cause == nil {
		return false
	}
	_, other := tx.UniqueViolation(c.store.Cause)
	return !other && !c.row.over()
}

// do runs the operation, or finds the answer of another call.
func (k *Keys[T]) do(ctx context.Context, key Key, fn work[T]) (e entry, replayed bool, err error) {
	if k.err != nil {
		return entry{}, false, k.err
	}
	if err := key.validate(); err != nil {
		return entry{}, false, err
	}
	c := newCall(key)
	if k.within(ctx, c) {
		return entry{}, false, k.nested(ctx, c)
	}
	if k.recollect(c) {
		return k.answer(ctx, c, answered, nil)
	}
	defer func() { k.keep(c, e, replayed) }()
	return k.together(ctx, c, func() (entry, bool, error) { return k.alone(ctx, c, fn) })
}

// alone runs the operation in transactions of its own until there is an answer.
func (k *Keys[T]) alone(ctx context.Context, c *call, fn work[T]) (e entry, replayed bool, err error) {
	if k.seen.has(c.digest) || k.seen.storm() {
		if v, err := k.recall(ctx, c); v != busy {
			k.seen.turn(true)
			return k.answer(ctx, c, v, err)
		}
	}
	for try := 1; ; try++ {
		v, e, err := k.once(ctx, c, fn)
		k.seen.turn(v == answered)
		switch {
		case v == stale && err == nil:
			continue
		case c.overtaken(err):
			was := c.row
			c.missed = &was
			continue
		case v == claimed:
			return e, false, err
		case v == busy && err == nil:
			err = k.pause(ctx, c, try)
		default:
			return k.answer(ctx, c, v, err)
		}
		if err != nil {
			return entry{}, false, err
		}
	}
}

// gone is why there is no answer where another execution had stored one: it has expired, if it ever was there.
func (c *call) gone() error {
	if c.row.over() && c.row.nonce == c.missed.nonce {
		return &tx.AbortError{Err: errMoved, Class: tx.Permanent, Attempts: c.attempt}
	}
	return ErrKeyExpired
}

// recall judges a repetition by a plain read. It is busy if only a claim can tell.
func (k *Keys[T]) recall(ctx context.Context, c *call) (verdict, error) {
	if err := k.lookup(ctx, c); err != nil {
		k.seen.drop(c.digest)
		return busy, nil
	}
	return k.judge(c)
}

// once runs one transaction: a claim, and the work if the key is ours.
func (k *Keys[T]) once(ctx context.Context, c *call, fn work[T]) (verdict, entry, error) {
	var did struct { // what the transaction came to
		verdict          verdict
		entry            entry
		refusal, failure error
	}
	err := k.db.Run(ctx, tx.Plan[T]{
		Lead: func() []*tx.Stmt {
			did.verdict = busy
			return append(k.claim(c), &tx.Stmt{SQL: tx.SetSavepoint})
		},
		Work: func(ctx context.Context, t T) error {
			conn := k.db.Tx(t)
			if err := k.insist(ctx, conn, c); err != nil {
				return err
			}
			if did.verdict, did.refusal = k.judge(c); did.verdict != claimed {
				return tx.ErrDiscard
			}
			if c.missed != nil {
				did.verdict, did.refusal = refused, c.gone()
				return tx.ErrDiscard
			}
			c.attempt = tx.Attempt(ctx)
			c.work()
			k.observe(ctx, EventClaimed, c, nil)
			drop := k.db.Mark(ctx, t)
			var err error
			if did.entry, did.failure, err = k.perform(k.enter(ctx, c, conn), c, t, fn); err != nil {
				return err
			}
			complete := k.complete(c, did.entry)
			if did.failure == nil || k.o.KeepFailedWrites {
				return k.db.Defer(ctx, t, complete)
			}
			drop()
			return k.db.Defer(ctx, t, &tx.Stmt{SQL: tx.BackToSavepoint}, complete)
		},
		Resolve: func(ctx context.Context) (holdfast.Outcome, error) { return k.resolve(ctx, c) },
	})
	switch {
	case c.moved(err):
		err = &tx.AbortError{Err: errMoved, Class: tx.Permanent, Attempts: c.attempt}
		return did.verdict, entry{}, k.failed(ctx, c, did.verdict, err)
	case err != nil:
		return did.verdict, entry{}, k.failed(ctx, c, did.verdict, err)
	case did.verdict == claimed:
		return did.verdict, did.entry, k.succeeded(ctx, c, did.failure)
	}
	return did.verdict, entry{}, did.refusal
}

// perform calls the closure. failure is set if its error is an answer to store.
func (k *Keys[T]) perform(ctx context.Context, c *call, t T, fn work[T]) (e entry, failure, err error) {
	e, err = fn(ctx, t)
	if f, ok := k.asFailure(err); ok {
		failure = err
		e = entry{state: stateFailed, codec: codecJSON, status: f.Status}
		e.stored, err = f.encode(k.o.MaxBody)
	} else if len(e.body) > k.o.MaxBody {
		e.codec, e.stored = codecNone, nil
	}
	if err == nil {
		e, err = k.seal(ctx, c, c.key.Fingerprint.bytes(), e)
	}
	return e, failure, err
}

// succeeded tells of an answer that is committed. It returns the failure if that is what it is.
func (k *Keys[T]) succeeded(ctx context.Context, c *call, failure error) error {
	k.seen.add(c.digest)
	if failure != nil {
		k.observe(ctx, EventFailed, c, failure)
		return failure
	}
	k.observe(ctx, EventCompleted, c, nil)
	return nil
}

// failed tells of a transaction that did not commit, or nobody knows.
func (k *Keys[T]) failed(ctx context.Context, c *call, v verdict, err error) error {
	switch {
	case commitUnknown(err):
		k.observe(ctx, EventUnknown, c, err)
		return fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
	case v == claimed:
		k.observe(ctx, EventReleased, c, err)
		return err
	case c.attempt > 0: // the closure did run, in an attempt before this one
		return err
	}
	return unavailable(err)
}

// commitUnknown reports whether it is this transaction whose commit is unknown. What the closure returned may wrap the
// same error of another.
func commitUnknown(err error) bool {
	_, ok := err.(*tx.CommitUnknownError) //nolint:errorlint // see above
	return ok
}

// unavailable marks the errors of a database that could not be reached before the work began.
func unavailable(err error) error {
	var aborted *tx.AbortError
	if errors.As(err, &aborted) && (aborted.Class == tx.NotSent || aborted.Class == tx.Lost) {
		return fmt.Errorf("%w: %w", ErrStoreUnavailable, err)
	}
	return err
}

// answer turns a verdict other than busy and claimed into what the caller gets.
func (k *core) answer(ctx context.Context, c *call, v verdict, err error) (entry, bool, error) {
	switch {
	case v == answered:
		k.seen.add(c.digest)
		e, err := k.open(ctx, c)
		k.observe(ctx, EventReplayed, c, err)
		return e, err == nil, k.unread(c.row.state, err)
	case errors.Is(err, ErrMismatch):
		k.observe(ctx, EventMismatch, c, err)
	case errors.Is(err, ErrKeyExpired):
		k.observe(ctx, EventExpired, c, err)
	}
	return entry{}, false, err
}
