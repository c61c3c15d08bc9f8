package holdfast

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// EventCallRefused: [ExternalCall] refused a call because a lock is held. Name is the lock, Err the refusal.
const EventCallRefused EventKind = "holdfast.call_refused"

// ErrLockHeld is what errors.Is finds in a [*LockHeldError].
var ErrLockHeld = errors.New("holdfast: a lock is held")

// A LockHeldError is the error of an external call that was refused because the transaction around it holds locks. The
// call was not made.
type LockHeldError struct {
	// Locks name what is held, in the order of locking, each once.
	Locks []string
}

func (e *LockHeldError) Error() string {
	return fmt.Sprintf("holdfast: no external call while the transaction holds locks on %s: everyone who waits for them would "+
		"wait for the call: make it before the transaction, or after its commit", strings.Join(e.Locks, ", "))
}

// Is reports whether target is [ErrLockHeld].
func (e *LockHeldError) Is(target error) bool { return target == ErrLockHeld }

// Outcome returns [NotApplied].
func (e *LockHeldError) Outcome() Outcome { return NotApplied }

// A LockScope knows of the locks that one transaction holds. It travels in the context of the transaction's closure, so
// that what would keep others waiting for a slow peer can be refused. The zero value is ready to use, by many goroutines.
type LockScope struct {
	mu    sync.Mutex // guards the field below
	locks []heldLock
}

type heldLock struct {
	name string
	obs  Observer
}

// lockFrame is a context with a scope, and the frame around it.
type lockFrame struct {
	context.Context

	scope *LockScope
	outer *lockFrame
}

type lockFrameKey struct{}

// Value answers to lockFrameKey by itself, which saves a context around it.
func (f *lockFrame) Value(key any) any {
	if key == (lockFrameKey{}) {
		return f
	}
	return f.Context.Value(key)
}

func lockFrameOf(ctx context.Context) *lockFrame {
	f, _ := ctx.Value(lockFrameKey{}).(*lockFrame)
	return f
}

// WithLockScope returns a context in which s notes locks. The scopes of ctx still count: a transaction on another database
// holds its locks meanwhile. Package tx does this for its closures; it is to be called, with a new scope, for a transaction
// that was begun otherwise. A nil s changes nothing.
func WithLockScope(ctx context.Context, s *LockScope) context.Context {
	if s == nil {
		return ctx
	}
	return &lockFrame{ctx, s, lockFrameOf(ctx)}
}

// LockScopeOf returns the innermost scope of ctx, or nil.
func LockScopeOf(ctx context.Context) *LockScope {
	if f := lockFrameOf(ctx); f != nil {
		return f.scope
	}
	return nil
}

// Hold notes that a lock is held until [LockScope.End]. o is told of each call that is refused because of it, unless it is
// nil. A savepoint that is undone releases the row locks that were taken after it; the note stays, so that calls are refused
// until the transaction ends.
func (s *LockScope) Hold(name string, o Observer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.locks = append(s.locks, heldLock{name, o})
}

// End notes that the transaction is over and holds nothing.
func (s *LockScope) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.locks = nil
}

func (s *LockScope) held() []heldLock {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.locks
}

// ExternalCall returns nil where a call to another service may be made, and a [*LockHeldError] where a transaction around
// ctx holds locks. Call it first in whatever leaves the database. A lock that no scope was told of is not seen.
func ExternalCall(ctx context.Context) error {
	if f := lockFrameOf(ctx); f != nil {
		return f.refusal(ctx)
	}
	return nil
}

func (f *lockFrame) refusal(ctx context.Context) error {
	var (
		refused  LockHeldError
		watchers []heldLock
		seen     []*LockScope
	)
	for ; f != nil; f = f.outer {
		if slices.Contains(seen, f.scope) {
			continue
		}
		seen = append(seen, f.scope)
		for _, l := range f.scope.held() {
			if !slices.Contains(refused.Locks, l.name) {
				refused.Locks = append(refused.Locks, l.name)
			}
			watchers = append(watchers, l)
		}
	}
	if watchers == nil {
		return nil
	}
	for _, l := range watchers {
		Observe(ctx, l.obs, Event{Kind: EventCallRefused, Name: l.name, Err: &refused})
	}
	return &refused
}
