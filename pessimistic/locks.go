package pessimistic

import (
	"context"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tx"
)

// Options set how [Locks] lock. The zero value is ready to use.
type Options struct {
	// Wait is what to do about a lock that somebody else holds. Default: [Forever].
	Wait Wait
	// Strength is how much of a row is locked. A job is claimed by [NoKeyUpdate] at least. Default: [NoKeyUpdate].
	Strength Strength
	// Hold is how long a transaction may keep its locks, from the moment it has them. A closure of [Locks.Do] and
	// [Locks.Work] then gets a context that ends with [ErrHoldBudget] as its cause, and its transaction is rolled back with a
	// [*HoldError]. In every transaction PostgreSQL itself ends what takes longer, so that the locks are free even if this
	// process stands still: version 17 the transaction (transaction_timeout), older ones a statement and a pause between two
	// that take longer (statement_timeout, idle_in_transaction_session_timeout). A stricter setting stays. It ends with the
	// transaction. SQLite has no such timeouts, and there the context is all. Default: 0, no limit.
	Hold time.Duration
	// Observer is told of locks, claims and refusals. Default: nil, silent.
	Observer holdfast.Observer
}

// Locks lock rows and names in transactions of the native type T. They hold no state and are safe for concurrent use.
type Locks[T any] struct {
	db *tx.DB[T]
	o  Options
}

// New returns Locks on db. Nil options are the defaults. It panics if db is nil.
func New[T any](db *tx.DB[T], o *Options) *Locks[T] {
	_ = db.Dialect() // panics with the reason
	l := &Locks[T]{db: db}
	if o != nil {
		l.o = *o
	}
	return l
}

// With returns Locks on the same database that lock with o.
func (l *Locks[T]) With(o Options) *Locks[T] { return &Locks[T]{db: l.db, o: o} }

// Check reports, for the start of a service, whether the tables are there with their keys, each of which must identify a row, and the
// database takes writes, with the privileges to select and update, which a lock of rows takes. See [tx.CheckTables] for the errors. A table with a key of several columns needs another unique column, or
// a row elsewhere that stands for it.
func (l *Locks[T]) Check(ctx context.Context, tables ...Table) error {
	wants := make([]tx.Table, len(tables))
	for i, t := range tables {
		if err := t.check(); err != nil {
			return err
		}
		wants[i] = tx.Table{Schema: t.Schema, Name: t.Name, Columns: []string{t.key()}, Key: t.key(), Privileges: []string{"select", "update"}}
	}
	return tx.CheckTables(ctx, l.db, wants...)
}

func (l *Locks[T]) can() tx.Capabilities { return l.db.Dialect().Capabilities }

// supported returns an [*UnsupportedError] for a policy that the database does not have.
func (l *Locks[T]) supported() error {
	if l.can().RowLocks || l.o.Wait == Forever {
		return nil
	}
	return &UnsupportedError{What: "row locks, and with them no policy but Forever: the one writer is waited for as long as the busy timeout says", Dialect: l.db.Dialect().Name}
}
