package idem

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/jitter"
)

// errNoWord stands for the error of a closure that panicked, or exited its goroutine.
var errNoWord = errors.New("idem: the closure panicked or exited")

// conclude calls the closure and brings the execution to an end: with an answer, or with the key given up.
func (r *Run) conclude(ctx context.Context, fn leasedWork) (e entry, err error) {
	returned := false
	defer func() {
		if !returned && r.finished == nil && r.doubt == nil {
			_ = r.giveUp(ctx, errNoWord)
		}
		_, _ = r.end(errReturned)
	}()
	e, failure, err := r.perform(ctx, fn)
	returned = true
	switch {
	case r.finished != nil:
		return e, r.told(ctx, err)
	case r.doubt != nil:
		r.l.observe(ctx, EventUnknown, r.c, r.doubt)
		return entry{}, r.doubt // the lease runs out, and the next call sees
	case err != nil || r.steps.unsettled() != "":
		return entry{}, r.giveUp(ctx, cmp.Or(err, failure))
	}
	if err := r.save(ctx, e); err != nil {
		return entry{}, err
	}
	return e, r.told(ctx, failure)
}

// perform calls the closure. failure is set if its error is an answer to store.
func (r *Run) perform(ctx context.Context, fn leasedWork) (e entry, failure, err error) {
	if err := r.Check(); err != nil {
		return entry{}, nil, err // the reply to the claim took as long as the lease
	}
	if err := r.load(ctx); err != nil {
		return entry{}, nil, err
	}
	e, err = fn(r)
	if r.finished != nil {
		return e, nil, err
	}
	return r.l.entryOf(ctx, r.c, r.c.row.fp, e, err)
}

// entryOf makes of what a closure returned what is to be stored.
func (l *leased) entryOf(ctx context.Context, c *call, fp []byte, e entry, err error) (_ entry, failure, _ error) {
	var f *Failure
	switch {
	case errors.As(err, &f) && f.Stored():
		failure = err
		e = entry{state: stateFailed, codec: codecJSON, status: f.Status}
		e.stored, err = f.encode(l.o.MaxBody)
	case len(e.body) > l.o.MaxBody:
		e.codec, e.stored = codecNone, nil
	}
	if err == nil {
		e, err = l.seal(ctx, c, fp, e)
	}
	return e, failure, err
}

// told tells of an answer that is stored. It returns the error that the caller gets with it.
func (r *Run) told(ctx context.Context, err error) error {
	if err != nil && (r.finished == nil || r.failed != nil) {
		r.l.observe(ctx, EventFailed, r.c, err)
		return err
	}
	r.l.observe(ctx, EventCompleted, r.c, nil)
	return err
}

func (e *entry) answer() Answer {
	return Answer{State: State(e.state), Codec: e.codec, Status: e.status, Body: e.stored}
}

// save stores the answer. It tries until the lease as it stands has ended: by then it is another's to find out.
func (r *Run) save(ctx context.Context, e entry) error {
	err := r.insist(ctx, func(ctx context.Context) (bool, error) {
		return r.l.store.Complete(ctx, r.term, e.answer(), r.l.o.TTL)
	})
	if errors.Is(err, ErrNotRecorded) {
		r.l.observe(ctx, EventNotRecorded, r.c, err)
	}
	return err
}

// insist makes a request that records what has been done, again after an error, until the lease as it stands has ended.
func (r *Run) insist(ctx context.Context, request func(context.Context) (held bool, err error)) error {
	r.mu.Lock()
	r.storing = true
	left := r.l.lo.Lease - r.l.clock.Since(r.anchor)
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.storing = false
		r.mu.Unlock()
	}()
	until := time.Now().Add(left)
	for attempt := 1; ; attempt++ {
		ctx, cancel := cleanup(ctx)
		held, err := request(ctx)
		cancel()
		switch {
		case err == nil && held:
			return nil
		case err == nil:
			return toldError{r.lose(TakenOver, nil), holdfast.Unknown}
		}
		wait := jitter.Full(10*time.Millisecond, time.Second, attempt)
		if time.Now().Add(wait).After(until) {
			return toldError{fmt.Errorf("%w: %w", ErrNotRecorded, err), holdfast.Unknown}
		}
		time.Sleep(wait)
	}
}

// giveUp ends an execution that has no answer, and returns what its caller gets.
func (r *Run) giveUp(ctx context.Context, cause error) error {
	ctx, cancel := cleanup(ctx)
	defer cancel()
	unsettled := r.steps.unsettled()
	if r.steps.none() {
		return r.free(ctx, cause)
	}
	p := Parking{State: Pending, After: r.l.backoff(r.c.attempt), Note: noteOf(cause)}
	if unsettled != "" {
		p.State, p.Note = Unknown, fmt.Sprintf("step %q: %s", unsettled, noteOf(errors.Join(r.steps.failure, cause)))
	}
	if len(r.steps.stored) > 0 { // they could not be read
		p.State = Unknown
	}
	if r.c.attempt >= r.l.lo.MaxAttempts {
		p.State, p.After = Unknown, forGood
	}
	return r.park(ctx, p, cause)
}

// free makes the key free: nothing was done outside.
func (r *Run) free(ctx context.Context, cause error) error {
	held, err := r.l.store.Release(ctx, r.term)
	if err == nil && !held {
		return r.lost(cause)
	}
	r.l.observe(ctx, EventReleased, r.c, errors.Join(cause, err))
	return cause
}

// park leaves the key to a later execution, or to a person.
func (r *Run) park(ctx context.Context, p Parking, cause error) error {
	err := error(nil)
	if r.steps.dirty {
		_, err = r.mark(ctx)
	}
	held, failed := r.l.store.Park(ctx, r.term, p)
	err = errors.Join(err, failed)
	if failed == nil && !held {
		return r.lost(cause)
	}
	if p.State == Pending {
		r.l.observe(ctx, EventPending, r.c, errors.Join(cause, err))
		return toldError{cause, holdfast.Unknown} // a part of it is done
	}
	unknown := &UnknownError{Name: r.c.key.Name, Note: p.Note, RetryAfter: due(p.After), Err: errors.Join(cause, err)}
	r.l.observe(ctx, EventUnknown, r.c, unknown)
	return unknown
}

// lost is the error of an execution whose key is another's.
func (r *Run) lost(cause error) error {
	why := r.lose(TakenOver, nil)
	if cause != nil && !errors.Is(cause, ErrLeaseLost) {
		why = fmt.Errorf("%w: %w", why, cause)
	}
	return toldError{why, holdfast.Unknown}
}

// longestNote bounds the text that is stored of an error.
const longestNote = 500

func noteOf(err error) string {
	if err == nil {
		return ""
	}
	text := strings.ReplaceAll(strings.ToValidUTF8(err.Error(), "?"), "\x00", "?")
	if len(text) > longestNote {
		text = strings.ToValidUTF8(text[:longestNote], "")
	}
	return text
}
