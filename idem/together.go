package idem

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/flight"
)

// A shared is what a call leaves to the calls of the same key in this process that waited for it: the row that it found
// or wrote, without one if another process is at work on the key, or the error of a database that is away.
type shared struct {
	row row
	err error
}

type flights = flight.Group[ID, Fingerprint, shared]

// together runs the operation, or takes part in a call of the same key that is under way in this process. A hot key costs
// the database one call, and its duplicates no connection: other keys go on as if there were none.
func (k *core) together(ctx context.Context, c *call, alone func() (entry, bool, error)) (e entry, replayed bool, err error) {
	for {
		f, leads := k.flights.Join(c.digest, func() Fingerprint { return c.key.Fingerprint })
		if leads {
			return k.lead(ctx, c, f, alone)
		}
		v, err := k.follow(ctx, c, f)
		switch {
		case v != busy:
			return k.answer(ctx, c, v, err)
		case errors.Is(err, ErrInFlight):
			return entry{}, false, k.refuse(ctx, c, err)
		case err != nil:
			return entry{}, false, err
		}
	}
}

// lead runs the operation and lands the flight, also if the closure panics.
func (k *core) lead(
	ctx context.Context, c *call, f *flight.Flight[Fingerprint, shared], alone func() (entry, bool, error),
) (e entry, replayed bool, err error) {
	defer func() {
		k.flights.Land(c.digest, f, func() (shared, bool) { return share(ctx, c, e, replayed, err) })
	}()
	c.work = f.Work
	return alone()
}

// share returns what others may know of how a call ended, if it is of use to them.
func share(ctx context.Context, c *call, e entry, replayed bool, err error) (s shared, ok bool) {
	switch {
	case e.state != 0 && !replayed:
		s.row = row{entry: e, fp: c.fp(), nonce: c.nonce}
		s.row.body = bytes.Clone(e.stored) // the caller may change its own
	case c.row.state > stateRunning:
		s.row = c.row
		s.row.body = bytes.Clone(c.row.body)
	case c.attempt > 0: // the error is that of a closure, whatever it says of another database
		return s, false
	case errors.Is(err, ErrStoreUnavailable) && ctx.Err() == nil:
		s.err = err
	default:
		return s, errors.Is(err, ErrInFlight)
	}
	return s, true
}

// follow waits for what the leader comes to. It is busy without an error if the call is to try for itself.
func (k *core) follow(ctx context.Context, c *call, f *flight.Flight[Fingerprint, shared]) (verdict, error) {
	select {
	case <-f.Landed():
	case <-ctx.Done():
		return busy, context.Cause(ctx)
	case <-f.Working():
		// Now the leader's fingerprint is that of the key. Before, it might itself be the one that does not match.
		if !c.key.Fingerprint.matches(f.Lead.bytes()) {
			return refused, &MismatchError{Scope: c.key.Scope, Name: c.key.Name}
		}
		if err := k.await(ctx, c, f); err != nil {
			return busy, err
		}
	}
	s, ok := f.Result()
	if !ok || s.err != nil {
		return busy, s.err
	}
	c.lock, c.late, c.row = lockTaken, false, s.row
	c.row.body = bytes.Clone(s.row.body)
	v, err := k.judge(c)
	if v == busy && k.patience(c) <= 0 {
		err = &InFlightError{RetryAfter: retryAfter}
	}
	return v, err
}

// patience is how much longer a duplicate waits.
func (k *core) patience(c *call) time.Duration { return k.o.Wait - time.Since(c.started) }

// await waits, no longer than Options.Wait from the start of the call, until the leader is through.
func (k *core) await(ctx context.Context, c *call, f *flight.Flight[Fingerprint, shared]) error {
	left := k.patience(c)
	if left <= 0 {
		return &InFlightError{RetryAfter: retryAfter}
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-f.Landed():
		return nil
	case <-timer.C:
		return &InFlightError{RetryAfter: retryAfter}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
