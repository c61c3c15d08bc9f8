package tx

import (
	"context"
	"errors"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
)

// A Plan is a transaction as a pattern runs it: [DB.Do] with statements that ride with BEGIN, and with a way to find
// out what became of a commit whose reply was lost.
type Plan[T any] struct {
	// Lead returns the statements that ride with BEGIN, new ones for each attempt. Nil means none.
	Lead func() []*Stmt
	// Work is the closure. It may return [ErrDiscard].
	Work func(ctx context.Context, t T) error
	// Resolve finds out whether a commit took effect, by what the transaction left in the database. It is called, with
	// a context that outlives the caller's by the commit timeout, only when the reply to the commit was lost. It
	// answers NotApplied only if that transaction can no longer commit. What it looks for must have been written by a
	// statement of Work, not a deferred one, whose request may still be on its way. Nil means that nobody knows, unless
	// [Options].ResolveCommit is set, which is asked next if Resolve does not know.
	Resolve func(ctx context.Context) (holdfast.Outcome, error)
}

// ErrDiscard is what [Plan.Work] returns to end a transaction that has nothing to commit. [DB.Run] then returns nil. On
// PostgreSQL it does not make the caller wait for the rollback.
var ErrDiscard = errors.New("tx: discard the transaction")

// NoDiscard returns err, or another error in the place of [ErrDiscard]: a pattern calls it on what a closure of its user
// returned, since a rollback that the user asked for must not be told as success.
func NoDiscard(err error) error {
	if errors.Is(err, ErrDiscard) {
		return errors.New("tx: the closure returned ErrDiscard, which is for patterns: return an error of your own to roll back")
	}
	return err
}

// Run runs p as [DB.Do] runs its closure, and returns the same errors.
func (db *DB[T]) Run(ctx context.Context, p Plan[T]) error {
	if p.Work == nil {
		return &AbortError{Err: ErrNilFunc}
	}
	if t, ok := db.Current(ctx); ok {
		return db.join(ctx, t, p)
	}
	begun := time.Now()
	hooks, err := db.attempt(ctx, 1, p)
	for attempt := 1; err != nil; attempt++ {
		if stop := db.pause(ctx, attempt, time.Since(begun), err); stop != nil {
			return stop
		}
		cause := db.turns.run(ctx, longestPause, func() {
			begun = time.Now()
			hooks, err = db.attempt(ctx, attempt+1, p)
		})
		if cause != nil {
			return stopped(err, cause)
		}
	}
	for _, hook := range hooks {
		hook(ctx)
	}
	return nil
}

// join runs p in the transaction of an outer closure, inside a savepoint. It never runs p again: what only a fresh
// transaction can cure is left to the outermost Do.
func (db *DB[T]) join(ctx context.Context, t T, p Plan[T]) error {
	var lead []*Stmt
	if p.Lead != nil {
		lead = p.Lead()
	}
	err := db.nested(ctx, t, lead, p.Work)
	if errors.Is(err, ErrDiscard) {
		return nil
	}
	return err
}
