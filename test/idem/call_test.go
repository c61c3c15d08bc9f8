package idem_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/tx"
)

// A process is what one process of a service holds.
type process[T any] struct {
	name   string
	level  tx.Isolation
	reuse  bool
	shared bool // several workers use it at once
	keys   *idem.Keys[T]
	inbox  *idem.Inbox[T]
}

// How the closure of a plan ends.
type ending int

const (
	succeed ending = iota
	storedFailure
	plainError
	panics
	goexits
	cancelsBefore // the call's context, before the call
	cancelsInside // and returns its error
	cancelsAfter  // and returns a value all the same
	endings
)

var endingNames = []string{"succeeds", "fails", "returns an error", "panics", "exits", "is cancelled before", "is cancelled inside", "is cancelled after"}

// A plan is what one worker does next: a call, or a transaction of its own with a call for each key.
type plan[T any] struct {
	id      string
	process *process[T]
	foreign bool
	commits bool
	early   bool // the transaction has its snapshot before the call
	inbox   bool
	batch   bool // all keys in one call
	sweeps  bool
	cut     func(wire.Match) *wire.Hook
	keys    []string
	fp      string
	end     ending
	lingers time.Duration // inside the closure
	idles   time.Duration // before the call
}

// plan chooses what a worker does. Shared processes are everybody's; the others belong to one worker each.
func (r *round[T]) plan(w int, processes []*process[T]) (plans []*plan[T]) {
	micros := func(n int) time.Duration { return time.Duration(r.random.IntN(n)) * time.Microsecond }
	for i := range each {
		p := &plan[T]{
			id: fmt.Sprintf("w%d.%d", w, i), process: processes[r.random.IntN(2)], fp: "a",
			foreign: r.random.IntN(3) == 0, commits: r.random.IntN(3) > 0, early: r.random.IntN(2) == 0,
			inbox: r.ttl == 0 && r.random.IntN(3) == 0, sweeps: r.ttl > 0 && r.random.IntN(3) == 0, lingers: micros(2000),
		}
		if w < 2 {
			p.process = processes[2+w]
		}
		if r.random.IntN(8) == 0 {
			p.fp = "b"
		}
		first := r.random.IntN(fewKeys)
		p.keys = []string{r.key(p.inbox, first)}
		if p.foreign && r.random.IntN(3) == 0 {
			p.keys = append(p.keys, r.key(p.inbox, (first+1)%fewKeys))
		}
		if p.batch = p.inbox && !p.foreign && r.random.IntN(2) == 0; p.batch {
			p.keys = append(p.keys, r.key(true, (first+1)%fewKeys))
		}
		// Most do not keep anything, so that keys stay free for a while.
		if p.end = ending(r.random.IntN(int(endings))); p.end == storedFailure && p.inbox {
			p.end = plainError
		}
		if r.ttl > 0 {
			p.idles = micros(8000)
		}
		if r.cuts && r.random.IntN(3) == 0 {
			p.cut = r.proxy.CutReplyTo
			if r.random.IntN(3) == 0 {
				p.cut = r.proxy.CutBefore
			}
		}
		plans = append(plans, p)
	}
	return plans
}

// do carries out a plan and records it.
func (r *round[T]) do(p *plan[T]) {
	time.Sleep(p.idles)
	if p.cut != nil {
		defer p.cut(wire.Runs("commit")).Disarm()
	}
	if p.sweeps {
		if _, err := p.process.keys.Sweep(context.Background()); err != nil && tx.Classify(err) != tx.Retryable {
			r.Errorf("%s: Sweep: %v", p.id, err)
		}
	}
	if p.foreign {
		r.inForeign(p)
		return
	}
	if p.batch {
		r.inBatch(p)
		return
	}
	call := r.begin(p, 0)
	r.attempt(p, call, func(ctx context.Context, fn func(context.Context, T) (string, error)) (idem.Result[string], error) {
		if p.inbox {
			handled, err := p.process.inbox.Do(ctx, call.key, func(ctx context.Context, t T) error { _, err := fn(ctx, t); return err })
			return idem.Result[string]{Value: valueIf(handled, call), Replayed: !handled}, err
		}
		return idem.Do(ctx, p.process.keys, keyOf(call), fn)
	})
	r.end(call)
}

// inForeign makes the calls in a transaction of the caller's. What they come to is decided when it ends.
func (r *round[T]) inForeign(p *plan[T]) {
	ctx := context.Background()
	var calls []*record
	for i := range p.keys {
		calls = append(calls, r.begin(p, i))
	}
	f, err := r.store.begin(ctx, p.process.level)
	if err != nil {
		r.Errorf("%s: begin: %v", p.id, err)
		return
	}
	if p.early {
		_, err = r.store.Tx(f.Tx).Exec(ctx, "select 1 from effect limit 1")
	}
	sound := err == nil
	for _, call := range calls {
		if !sound {
			break
		}
		// A closure that was cancelled, and an inbox whose handler failed, leave the transaction to roll back.
		sound = r.attempt(p, call, func(ctx context.Context, fn func(context.Context, T) (string, error)) (idem.Result[string], error) {
			if p.inbox {
				handled, err := p.process.inbox.DoTx(ctx, f.Tx, call.key, func(ctx context.Context, t T) error { _, err := fn(ctx, t); return err })
				return idem.Result[string]{Value: valueIf(handled, call), Replayed: !handled}, err
			}
			return idem.DoTx(ctx, p.process.keys, f.Tx, keyOf(call), fn)
		})
	}
	if !sound || !p.commits {
		_ = f.Rollback(ctx)
		undo(calls, nothing)
	} else if err := f.Commit(ctx); err != nil && tx.Classify(err) == tx.Retryable {
		undo(calls, nothing)
	} else if err != nil {
		undo(calls, unknown)
	}
	for _, call := range calls {
		r.end(call)
	}
}

// undo makes of what the calls would have kept what became of their transaction.
func undo(calls []*record, saw sight) {
	for _, call := range calls {
		if call.saw == fresh || call.saw == freshFailure {
			call.saw = saw
		}
	}
}

func keyOf(call *record) idem.Key {
	key := idem.Key{Scope: "tenant", Name: "charge", Value: call.key}
	if call.fp != "" {
		key.Fingerprint = idem.FingerprintOf(call.fp)
	}
	return key
}

func valueIf(handled bool, call *record) string {
	if !handled {
		return ""
	}
	return call.value
}

func (r *round[T]) begin(p *plan[T], i int) *record {
	call := &record{
		id: p.id, key: p.keys[i], fp: p.fp, reuse: p.process.reuse, coalesced: p.process.shared && !p.foreign && !p.inbox,
		what: fmt.Sprintf("%s, %s", p.process.name, endingNames[p.end]), from: time.Since(r.started),
	}
	if p.foreign {
		call.what = "DoTx " + call.what
	}
	if p.batch {
		call.what = "DoBatch " + call.what
	}
	if p.inbox {
		call.fp = "" // messages have none
	}
	return call
}

func (r *round[T]) end(call *record) {
	call.to = time.Since(r.started)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history = append(r.history, call)
}

// attempt makes one call on a goroutine that its closure may end, and sets what its caller saw. sound reports whether a
// transaction around it can still be committed.
func (r *round[T]) attempt(p *plan[T], call *record, do func(context.Context, func(context.Context, T) (string, error)) (idem.Result[string], error)) (sound bool) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if p.end == cancelsBefore {
		cancel()
	}
	own, runs := fmt.Errorf("the error of %s", p.id), 0
	closure := func(ctx context.Context, t T) (string, error) {
		runs++
		call.value = fmt.Sprintf("%s.%s.%d", p.id, call.key, runs)
		call.fails = p.end == storedFailure
		if err := r.store.apply(ctx, t, call.key, call.value); err != nil {
			return "", err
		}
		time.Sleep(p.lingers)
		switch p.end {
		case storedFailure:
			return "", &idem.Failure{Status: 402, Message: call.value}
		case plainError:
			return "", own
		case panics:
			panic(own)
		case goexits:
			runtime.Goexit()
		case cancelsInside:
			cancel()
			return "", ctx.Err()
		case cancelsAfter:
			cancel()
		}
		return call.value, nil
	}
	done := make(chan struct{})
	go func() {
		returned := false
		defer close(done)
		defer func() {
			if v := recover(); v != nil && v != own { //nolint:errorlint // it is the very value
				r.Errorf("%s: a panic of somebody else: %v", p.id, v)
			}
			if !returned {
				call.saw, sound = released, !p.inbox
			}
		}()
		res, err := do(ctx, closure)
		returned = true
		var wrong string
		if call.saw, wrong = see(call, own, p, res, err); wrong != "" {
			r.Errorf("%v: %s: %+v, %v", call, wrong, res, err)
		}
		cancelled := ctx.Err() != nil && err != nil
		sound = !cancelled && !aborted(err) && tx.Classify(err) != tx.Retryable && !(p.inbox && call.saw == released)
	}()
	<-done
	return sound
}

// see tells what the caller of a call sees. wrong is set if that is nothing that it may see.
func see[T any](call *record, own error, p *plan[T], res idem.Result[string], err error) (saw sight, wrong string) {
	var failure *idem.Failure
	mine := call.value
	switch {
	case err == nil && !res.Replayed:
		if res.Value != mine {
			return fresh, "a value of somebody else"
		}
		return fresh, ""
	case err == nil:
		call.value = res.Value
		return replayed, ""
	case errors.As(err, &failure) && res.Replayed:
		call.value = failure.Message
		return replayedFailed, ""
	case errors.As(err, &failure):
		if failure.Message != mine {
			return freshFailure, "a failure of somebody else"
		}
		return freshFailure, ""
	case errors.Is(err, own):
		if !p.foreign && holdfast.OutcomeOf(err) != holdfast.NotApplied {
			return released, "an outcome other than not applied"
		}
		return released, ""
	case errors.Is(err, idem.ErrInFlight):
		return refused, ""
	case errors.Is(err, idem.ErrMismatch):
		return mismatched, ""
	case errors.Is(err, idem.ErrKeyExpired):
		return expired, ""
	case errors.Is(err, idem.ErrOutcomeUnknown):
		return unknown, ""
	case p.end >= cancelsBefore && errors.Is(err, context.Canceled):
		return nothing, ""
	case p.foreign && aborted(err), tx.Classify(err) == tx.Retryable, errors.Is(err, tx.ErrAttempts):
		return nothing, ""
	}
	return nothing, "an error of somebody else"
}

// aborted reports whether the transaction had failed before: at SERIALIZABLE, while a panic of the call before was cleaned up.
func aborted(err error) bool {
	var e interface{ SQLState() string }
	return errors.As(err, &e) && e.SQLState() == "25P02"
}
