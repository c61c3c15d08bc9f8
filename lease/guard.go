package lease

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/tx"
)

// A Fence is what a guarded resource checks: the token, which orders the holders of a lease, and the nonce, which tells two
// acquisitions apart that a failover gave the same token. It is a value; the zero value is refused everywhere.
type Fence struct {
	// Name is the lease.
	Name string
	// Token rises with each acquisition of the lease. Resources elsewhere refuse what comes with a smaller one than they have
	// seen.
	Token int64
	// Nonce is different for each acquisition.
	Nonce string

	guard   string // the statement of the store, if it has one
	old     string // tells whether the transaction's snapshot is older than the acquisition; empty if it cannot be
	dialect *tx.Dialect
}

// String names the lease and the token.
func (f Fence) String() string { return fmt.Sprintf("%s@%d", f.Name, f.Token) }

// Guard refuses, with a [*FencedError], unless the fence is still that of the lease, in a transaction on the database that the
// lease is in (t is db.Tx of it). On success nobody takes the lease until the transaction ends, even if this process is stopped
// in its middle and the lease runs out; renewals go on. It is one round trip; [Do] saves it. Call it first, so that a holder
// of the past writes nothing, and return its error.
//
// At REPEATABLE READ and SERIALIZABLE a transaction sees what was there at its first statement. If the lease was taken from its
// holder since then, Guard returns the database's serialization failure instead, after which [tx.DB.Do] runs the closure again, and it
// is fenced. If its own acquisition came since then, Guard refuses it with a [*SnapshotError]: acquire first, then begin.
func (f Fence) Guard(ctx context.Context, t tx.Tx) error {
	if f.guard == "" { // t may be anything, also nil
		return ErrNoGuard
	}
	s, err := f.statement(t.Dialect())
	if err != nil {
		return err
	}
	if err := t.Batch(ctx, s); err != nil {
		return err
	}
	if !s.Found {
		return f.refused(ctx, t)
	}
	return nil
}

func (f Fence) statement(d *tx.Dialect) (*tx.Stmt, error) {
	if f.dialect != d {
		return nil, ErrNoGuard
	}
	return &tx.Stmt{SQL: f.guard, Args: []any{f.Name, f.Token, f.Nonce}, Dest: []any{new(int)}}, nil
}

// refused tells why the guard did not pass in t, a transaction that may have begun before the acquisition.
func (f Fence) refused(ctx context.Context, t tx.Tx) error {
	if f.old != "" {
		old := false
		if err := t.QueryRow(ctx, f.old, f.Name, f.Token).Scan(&old); err == nil && old {
			return &SnapshotError{Fence: f}
		}
	}
	return &FencedError{Fence: f}
}

// Do runs fn in a transaction that the fence guards; see [Fence.Guard] and [tx.DB.Do]. The guard rides with BEGIN, and costs
// no round trip on pgx. db is the database that the lease is in. In a closure of db it joins the transaction.
//
// It returns a [*FencedError], a [*SnapshotError] in a closure that had begun before, [ErrNoGuard], and errors of fn and of
// [tx.DB.Do]. fn must not return [tx.ErrDiscard].
func Do[T any](ctx context.Context, db *tx.DB[T], h *Held, fn func(ctx context.Context, t T) error) error {
	if fn == nil {
		return tx.ErrNilFunc
	}
	if h == nil {
		return &InputError{Name: "the handle", Reason: "is nil"}
	}
	if err := h.Check(); err != nil {
		return err
	}
	f := h.Fence()
	if _, err := f.statement(db.Dialect()); err != nil {
		return err
	}
	_, joins := db.Current(ctx)
	var s *tx.Stmt
	return db.Run(ctx, tx.Plan[T]{
		Lead: func() []*tx.Stmt {
			s, _ = f.statement(db.Dialect())
			return []*tx.Stmt{s}
		},
		Work: func(ctx context.Context, t T) error {
			if s.Found {
				return tx.NoDiscard(fn(ctx, t))
			}
			err := error(&FencedError{Fence: f})
			if joins {
				err = f.refused(ctx, db.Tx(t))
			}
			h.core.observe(ctx, EventFenced, h.term, 0, tx.Attempt(ctx), err)
			return err
		},
	})
}
