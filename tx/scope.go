package tx

import (
	"context"
	"errors"
	"fmt"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/bound"
)

// A scope is the state of one transaction that a DB began. It travels in the context of the closure.
type scope struct {
	own      frame // that of its closure
	driver   any   // the Driver whose transaction this is
	t        any   // the native transaction
	attempt  int
	deferred []*Stmt
	hooks    []func(context.Context)
	doomed   error // a savepoint met an error that only a fresh transaction can cure
	spoiled  bool  // doomed is of what could not be undone
	over     bool  // the closure has returned
	locks    holdfast.LockScope
}

// A frame is the context of one closure: the transaction that it is in, and the frames around it. Those of a transaction on
// another pool may stand between two of the same transaction.
type frame struct {
	context.Context // that of the caller

	scope *scope
	outer *frame
}

type frameKey struct{ bound.ToTransaction }

// Value answers to frameKey by itself, which saves a context around it.
func (f *frame) Value(key any) any {
	if key == (frameKey{}) {
		return f
	}
	return f.Context.Value(key)
}

func frameOf(ctx context.Context) *frame {
	f, _ := ctx.Value(frameKey{}).(*frame)
	return f
}

// scopeOf returns the scope of the innermost closure around ctx, or nil.
func scopeOf(ctx context.Context) *scope {
	if f := frameOf(ctx); f != nil {
		return f.scope
	}
	return nil
}

// enter returns a context for a closure in the transaction of s. A nil s belongs to the caller, who has none.
func (s *scope) enter(ctx context.Context) context.Context {
	if s == nil || scopeOf(ctx) == s {
		return ctx
	}
	f := &s.own
	if f.scope != nil {
		f = &frame{}
	}
	*f = frame{holdfast.WithLockScope(ctx, &s.locks), s, frameOf(ctx)}
	return f
}

// current returns the scope around ctx that a DB on the pool of db began, or nil.
func (db *DB[T]) current(ctx context.Context) *scope {
	for f := frameOf(ctx); f != nil; f = f.outer {
		if _, ok := f.scope.t.(T); ok && samePool(f.scope.driver, db.driver) {
			return f.scope
		}
	}
	return nil
}

// around is scopeFor of a savepoint too, where the client library has transactions for those: what is registered inside one
// goes with it.
func (db *DB[T]) around(ctx context.Context, t T) *scope {
	if d, ok := db.driver.(interface{ Root(t T) T }); ok {
		t = d.Root(t)
	}
	return db.scopeFor(ctx, t)
}

// scopeFor returns the scope of t if a DB on the pool of db began t and ctx is that of its closure, else nil.
func (db *DB[T]) scopeFor(ctx context.Context, t T) *scope {
	if s := db.current(ctx); s != nil && s.t == any(t) {
		return s
	}
	return nil
}

// pooled is a driver that tells its pool.
type pooled interface{ Pool() any }

// samePool reports whether two drivers run on the same pool. Several DBs may have been made of one.
func samePool(a, b any) bool {
	if a == b {
		return true
	}
	pa, ok := a.(pooled)
	pb, also := b.(pooled)
	return ok && also && pa.Pool() == pb.Pool()
}

// doom returns the error of a closure that went on after an error that only a fresh transaction can cure, and returned err.
// What came of going on is told by its text alone: it says nothing of whether to start over.
func (s *scope) doom(err error) error {
	if err == nil || errors.Is(err, ErrDiscard) {
		return s.doomed
	}
	if s.spoiled {
		return err
	}
	return fmt.Errorf("%w, and then %v", s.doomed, err) //nolint:errorlint // see above
}

// spoil keeps the transaction from committing, since err kept what a savepoint was to undo in it. Most often it cannot commit
// anyhow: it is aborted, or its connection gone. s is nil in a transaction of the caller's, who gets the first error.
func (s *scope) spoil(err error) {
	if s != nil && s.doomed == nil {
		s.doomed, s.spoiled = fmt.Errorf("tx: undo a part of the transaction: %w", err), true
	}
}

// mark and reset undo what a savepoint undoes: the deferred statements and the hooks that came after it.
func (s *scope) mark() (deferred, hooks int) { return len(s.deferred), len(s.hooks) }

func (s *scope) reset(deferred, hooks int) {
	s.deferred, s.hooks = s.deferred[:deferred], s.hooks[:hooks]
}

// Attempt returns the number of the attempt that the closure is in, from 1, or 0 outside a closure of [DB.Do].
func Attempt(ctx context.Context) int {
	if s := scopeOf(ctx); s != nil {
		return s.attempt
	}
	return 0
}

// AfterCommit calls fn once the transaction around ctx is proved to be committed. fn is not called when the
// transaction rolls back, when the savepoint that it was registered in rolls back, or when the outcome of the commit is
// unknown. It runs on the goroutine of [DB.Do], before Do returns, with the context that Do was called with; the order
// is that of registration. It returns [ErrNoTransaction] if ctx is not that of a closure of Do: nothing falls back to
// calling fn at once.
func AfterCommit(ctx context.Context, fn func(context.Context)) error {
	s := scopeOf(ctx)
	if s == nil || s.over {
		return ErrNoTransaction
	}
	if fn == nil {
		return errors.New("tx: AfterCommit needs a function, got nil")
	}
	s.hooks = append(s.hooks, fn)
	return nil
}

// Defer runs stmts at the end of t, with COMMIT, when [DB.Do] of this database began t and ctx is that of its closure;
// otherwise at once. Deferred statements run in order. Statements of the closure do not see their effects, their errors
// surface at the commit, and they are dropped when the savepoint that they were deferred in rolls back. On pgx they
// cost no round trip.
func (db *DB[T]) Defer(ctx context.Context, t T, stmts ...*Stmt) error {
	if s := db.scopeFor(ctx, t); s != nil {
		s.deferred = append(s.deferred, stmts...)
		return nil
	}
	return db.driver.Wrap(t).Batch(ctx, stmts...)
}

// Current returns the transaction of the closure that ctx belongs to, if a DB on the same pool began it. A pattern that
// is asked to begin a transaction of its own inside such a closure joins that one instead.
func (db *DB[T]) Current(ctx context.Context) (t T, ok bool) {
	if s := db.current(ctx); s != nil {
		return s.t.(T), true
	}
	return t, false
}

// Within returns the context for a closure in t: what asks for the transaction around it, as [AfterCommit] does, finds t,
// also where a closure of another pool stands in between. It is ctx where t is the innermost, or the caller's own.
func (db *DB[T]) Within(ctx context.Context, t T) context.Context {
	return db.around(ctx, t).enter(ctx)
}

// Mark returns a function that drops what has been deferred and hooked in t since. It is for a pattern that returns to a
// savepoint of its own.
func (db *DB[T]) Mark(ctx context.Context, t T) (drop func()) {
	s := db.around(ctx, t)
	if s == nil {
		return func() {}
	}
	deferred, hooks := s.mark()
	return func() { s.reset(deferred, hooks) }
}

// Spoil keeps the transaction around t from committing, whatever its closure returns. It is for a pattern that could not
// undo what it had to, for the reason err.
func (db *DB[T]) Spoil(ctx context.Context, t T, err error) {
	db.around(ctx, t).spoil(err)
}

// Doom makes the outermost [DB.Do] around t start over, whatever the closures in between make of err, if only a fresh
// transaction can cure it. It is for a pattern that returns to a savepoint of its own.
func (db *DB[T]) Doom(ctx context.Context, t T, err error) {
	db.doom(db.around(ctx, t), err)
}
