package holdfast_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	holdfast "github.com/holdfast-go/holdfast"
)

func TestExternalCallIsRefusedWhileLocksAreHeld(t *testing.T) {
	t.Parallel()
	var events []holdfast.Event
	watch := holdfast.ObserverFunc(func(_ context.Context, e holdfast.Event) { events = append(events, e) })
	ctx := holdfast.WithCorrelationID(t.Context(), "request-1")
	if err := holdfast.ExternalCall(ctx); err != nil {
		t.Fatalf("outside any scope: %v", err)
	}
	var outer, inner holdfast.LockScope
	outside := holdfast.WithLockScope(ctx, &outer)
	inside := holdfast.WithLockScope(outside, &inner)
	if err := holdfast.ExternalCall(inside); err != nil {
		t.Fatalf("before any lock: %v", err)
	}
	inner.Hold("account", watch)
	if err := holdfast.ExternalCall(outside); err != nil {
		t.Errorf("outside the scope that holds: %v", err)
	}
	err := holdfast.ExternalCall(inside)
	if !errors.Is(err, holdfast.ErrLockHeld) || !strings.Contains(err.Error(), "account") {
		t.Errorf("with a lock on account: %v", err)
	}
	if holdfast.OutcomeOf(err) != holdfast.NotApplied {
		t.Errorf("the outcome of a refused call is %v", holdfast.OutcomeOf(err))
	}
	if len(events) != 1 || events[0].Kind != holdfast.EventCallRefused || events[0].Name != "account" ||
		events[0].CorrelationID != "request-1" || !errors.Is(events[0].Err, holdfast.ErrLockHeld) {
		t.Errorf("events: %+v", events)
	}
	outer.Hold("stock", nil)
	inner.End()
	if err := holdfast.ExternalCall(inside); err == nil || strings.Contains(err.Error(), "account") {
		t.Errorf("with only the outer lock: %v", err)
	}
	outer.End()
	if err := holdfast.ExternalCall(inside); err != nil {
		t.Errorf("after the end: %v", err)
	}
}

func TestLockScopeIsForManyGoroutines(t *testing.T) {
	t.Parallel()
	var s holdfast.LockScope
	ctx := holdfast.WithLockScope(t.Context(), &s)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			s.Hold("row", nil)
			if !errors.Is(holdfast.ExternalCall(ctx), holdfast.ErrLockHeld) {
				t.Error("not refused after Hold")
			}
		})
	}
	all.Wait()
}

// Everything that leaves the database asks, so asking must cost nothing.
func TestExternalCallAllocatesNothing(t *testing.T) {
	ctx := holdfast.WithCorrelationID(t.Context(), "c")
	if n := testing.AllocsPerRun(100, func() { _ = holdfast.ExternalCall(ctx) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestLockScopesOfNobody(t *testing.T) {
	t.Parallel()
	if err := holdfast.ExternalCall(holdfast.WithLockScope(t.Context(), nil)); err != nil {
		t.Errorf("without a scope: %v", err)
	}
	var s holdfast.LockScope
	for range 3 {
		s.Hold("account", nil)
	}
	var held *holdfast.LockHeldError
	if err := holdfast.ExternalCall(holdfast.WithLockScope(t.Context(), &s)); !errors.As(err, &held) || len(held.Locks) != 1 {
		t.Errorf("a table that was locked three times: %v", err)
	}
}
