package idem

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Complete goes on with the keys that others have left: whose lease has run out, that are Pending, or Unknown and due. It runs the
// handlers of [Handle], several at a time, until nothing is due or ctx ends, and returns how many keys came to an answer. Several
// processes may call it at once: each runs only what its own claim got. A key that still has no answer is left alone for longer from
// one time to the next, and after LeaseOptions.MaxAttempts it waits for a person.
//
// The error is that of the store, or the cause of the end of ctx. What became of a key the observer is told.
func (l *leased) Complete(ctx context.Context) (answered int64, err error) {
	if l.err != nil {
		return 0, l.err
	}
	l.handlers.mu.Lock()
	byName := maps.Clone(l.handlers.byName)
	l.handlers.mu.Unlock()
	names := slices.Sorted(maps.Keys(byName))
	if len(names) == 0 {
		return 0, errors.New("idem: there is no handler: register what Complete is to run with Handle")
	}
	due := Due{Names: names, States: []State{Running, Unknown, Pending}, Lease: l.lo.Lease, Limit: 1}
	if l.lo.OnExpiry == Block {
		if err := l.blockDue(ctx, due); err != nil {
			return 0, err
		}
		due.States = []State{Pending}
	}
	return l.completeDue(ctx, due, byName)
}

// blockDue leaves to a person what ended without a word.
func (l *leased) blockDue(ctx context.Context, due Due) error {
	due.States = []State{Running}
	for {
		list, err := l.store.TakeDue(ctx, due)
		if err != nil || len(list) == 0 {
			return err
		}
		_ = l.block(ctx, callOf(list[0]), list[0])
	}
}

// callOf is the call of a record that nobody called for.
func callOf(r Record) *call {
	c := &call{key: Key{Scope: r.Scope, Name: r.Name}, digest: r.ID, nonce: r.Nonce, attempt: r.Attempts, started: time.Now()}
	c.found(r)
	return c
}

// completeDue runs what is due.
func (l *leased) completeDue(ctx context.Context, due Due, byName map[string]func() leasedWork) (answered int64, err error) {
	var wg sync.WaitGroup
	var done atomic.Int64
	free := make(chan struct{}, l.lo.Workers) // a token for each worker at work
	for {
		select {
		case free <- struct{}{}: // a lease runs from the claim on: take no more than can begin now
		case <-ctx.Done():
			wg.Wait()
			return done.Load(), context.Cause(ctx)
		}
		anchor := l.clock.Read()
		list, err := l.store.TakeDue(ctx, due)
		if err != nil || len(list) == 0 {
			wg.Wait()
			return done.Load(), err
		}
		wg.Go(func() {
			defer func() { <-free }()
			e, _ := l.execute(ctx, callOf(list[0]), list[0], anchor, byName[list[0].Name]())
			if e.state != 0 {
				done.Add(1)
			}
		})
	}
}

// CompleteEvery calls [Leased.Complete] at once and then at each interval until ctx ends, and returns the cause of that. An error
// does not end it: the next interval tries again.
func (l *leased) CompleteEvery(ctx context.Context, interval time.Duration) error {
	return every(ctx, interval, l.Complete)
}
