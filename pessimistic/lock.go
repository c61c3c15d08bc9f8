package pessimistic

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/tx"
)

// Lock locks rows of any tables in t, which may be a transaction that the caller began, until its end: in one round trip on
// pgx. Whoever locks the same rows by one call of Lock or [Locks.Do], in whatever order they are named, meets no deadlock:
// tables are locked in the order of their names, and the rows of a table in the order of the database. Two calls in one
// transaction have no common order: name all rows in one. Without rows it does nothing.
//
// It returns a [*MissingError] if a row does not exist; the others are locked. [ErrNotAvailable] leaves none of the call
// locked and, thanks to a savepoint around the attempt, t usable. It returns an [*InputError] or [*UnsupportedError] before
// anything is sent, and otherwise the error of the database, such as a deadlock with statements of others, which ends t on
// PostgreSQL.
//
// On SQLite, which has no row locks, t becomes the one writer of the whole database, and the rows are looked up.
func (l *Locks[T]) Lock(ctx context.Context, t T, rows ...Rows) error {
	rows, err := l.check(rows)
	if err != nil || len(rows) == 0 {
		return err
	}
	q, err := l.request(rows)
	if err != nil {
		return err
	}
	if err := l.run(ctx, t, q.name(), q.stmts); err != nil {
		return err
	}
	return l.locked(ctx, t, q)
}

// check returns rows in their order, or what is wrong with them.
func (l *Locks[T]) check(rows []Rows) ([]Rows, error) {
	if err := l.supported(); err != nil {
		return nil, err
	}
	return ordered(rows)
}

// run runs the statements of a call in t. Those that can end in [ErrNotAvailable] have a savepoint around them, in the same
// round trip, since PostgreSQL aborts the transaction otherwise.
func (l *Locks[T]) run(ctx context.Context, t T, name string, stmts []*tx.Stmt) error {
	conn, begun := l.db.Tx(t), time.Now()
	if !l.o.Wait.givesUp() || !l.can().AbortsOnError {
		err := conn.Batch(ctx, stmts...)
		if unavailable(err) { // by a lock_timeout that somebody else has set
			return l.unavailable(ctx, name, begun, err)
		}
		return err
	}
	around := append([]*tx.Stmt{{SQL: tx.SetSavepoint}}, stmts...)
	around = append(around, &tx.Stmt{SQL: tx.ReleaseSavepoint})
	err := conn.Batch(ctx, around...)
	if !unavailable(err) {
		return err
	}
	if back := l.back(ctx, t); back != nil {
		return fmt.Errorf("%w; undo the attempt to lock: %w", err, back)
	}
	return l.unavailable(ctx, name, begun, err)
}

const backTimeout = 5 * time.Second

// back returns to the savepoint. ctx may have ended.
func (l *Locks[T]) back(ctx context.Context, t T) error {
	dctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), backTimeout)
	defer cancel()
	err := l.db.Tx(t).Batch(dctx, &tx.Stmt{SQL: tx.BackToSavepoint}, &tx.Stmt{SQL: tx.ReleaseSavepoint})
	if err != nil {
		l.db.Spoil(ctx, t, err)
	}
	return err
}

func (l *Locks[T]) unavailable(ctx context.Context, name string, begun time.Time, err error) error {
	e := &NotAvailableError{Name: name, Waited: time.Since(begun), Err: err}
	l.observe(ctx, EventNotAvailable, name, 0, e.Waited, e)
	return e
}
