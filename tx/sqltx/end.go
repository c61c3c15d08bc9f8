package sqltx

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"

	"github.com/holdfast-go/holdfast/tx"
)

func (d *driver) Commit(ctx context.Context, t *sql.Tx, tail []*tx.Stmt) error {
	s, ok := d.take(t)
	if !ok {
		return tx.ErrEnded
	}
	if len(tail) > 0 {
		err := d.stillOpen(ctx, t)
		if err == nil {
			err = d.Wrap(t).Batch(ctx, tail...)
		}
		if err != nil {
			d.release(ctx, s, t.Rollback())
			return err
		}
	}
	err := t.Commit()
	d.release(ctx, s, err)
	return d.commitError(err)
}

// commitError tells what an error of COMMIT proves.
func (d *driver) commitError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sql.ErrTxDone):
		return tx.ErrEnded
	case committedAsRollback(err):
		return tx.ErrTxAborted
	case noTransaction(err):
		return &tx.EndedError{Err: tx.ErrTxAborted}
	}
	if answered(err) {
		return err
	}
	return &tx.CommitUnknownError{Err: err}
}

// answered reports whether err proves that the transaction was not committed: the database refused the COMMIT, or the
// COMMIT was not sent.
func answered(err error) bool {
	switch tx.Classify(err) {
	case tx.Lost:
		return false
	case tx.Permanent:
		return hasCode(err)
	}
	return true
}

func (d *driver) Rollback(ctx context.Context, t *sql.Tx) error {
	s, ok := d.take(t)
	if !ok {
		return tx.ErrEnded
	}
	err := t.Rollback()
	d.release(ctx, s, err)
	if errors.Is(err, sql.ErrTxDone) {
		return tx.ErrEnded
	}
	if noTransaction(err) {
		return nil
	}
	return err
}

// take removes t from the open transactions.
func (d *driver) take(t *sql.Tx) (*session, bool) {
	s, ok := d.sessions.LoadAndDelete(t)
	if !ok {
		return nil, false
	}
	return s.(*session), true
}

// release gives the connection of a transaction that was ended with err back to the pool, or to the grave if the
// transaction may still be open on it.
func (d *driver) release(ctx context.Context, s *session, err error) {
	clean := err == nil || errors.Is(err, sql.ErrTxDone) || noTransaction(err)
	if d.sqlite() {
		if !clean {
			_, err = s.conn.ExecContext(ctx, "rollback")
			clean = err == nil || noTransaction(err)
		}
		if s.queryOnly {
			_, err = s.conn.ExecContext(ctx, "pragma query_only = off")
			clean = clean && err == nil
		}
	}
	if !clean {
		_ = s.conn.Raw(func(any) error { return sqldriver.ErrBadConn })
	}
	_ = s.conn.Close()
	if s.cancel != nil {
		s.cancel()
	}
}
