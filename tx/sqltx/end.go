package sqltx

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/tx"
)

// Commit pays a round trip for each statement of tail: database/sql cannot pipeline.
func (d *driver) Commit(ctx context.Context, t *sql.Tx, tail []*tx.Stmt) error {
	s, ok := d.take(t)
	if !ok {
		return tx.ErrEnded
	}
	err := d.stillOpen(ctx, s, t, len(tail) > 0)
	if err == nil {
		returned := false
		defer func() {
			if !returned { // what takes the rows of a statement panicked
				d.giveUp(ctx, s, t)
			}
		}()
		err = d.Wrap(t).Batch(ctx, tail...)
		returned = true
	}
	if err == nil {
		err = context.Cause(ctx) // nothing has been sent yet that leaves a doubt
	}
	if err != nil {
		d.giveUp(ctx, s, t)
		return tailError(err)
	}
	return d.commitError(d.end(ctx, s, t.Commit))
}

const rollbackTimeout = 5 * time.Second

// giveUp rolls back what cannot be committed. ctx may have ended.
func (d *driver) giveUp(ctx context.Context, s *session, t *sql.Tx) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	_ = d.end(ctx, s, t.Rollback)
}

func (d *driver) Rollback(ctx context.Context, t *sql.Tx) error {
	s, ok := d.take(t)
	if !ok {
		return tx.ErrEnded
	}
	ended := !d.sqlite() && txStatus(s.conn) == 'I'
	err := d.end(ctx, s, t.Rollback)
	switch {
	case ended, errors.Is(err, sql.ErrTxDone), endedBefore(err):
		return tx.ErrEnded
	case noTransaction(err):
		return errEndedByEngine
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

// end ends a transaction by how, gives its connection back, and returns the error of how. It does not wait for a server
// any longer than ctx allows: when the context of its BEGIN ends pgx gives up, while lib/pq waits as long as TCP does.
func (d *driver) end(ctx context.Context, s *session, how func() error) error {
	if d.sqlite() {
		err := how()
		d.release(ctx, s, err)
		return err
	}
	done := make(chan error, 1)
	go func() {
		err := how()
		d.release(ctx, s, err)
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		s.cancel()
		return context.Cause(ctx)
	}
}

// release gives the connection of a transaction that was ended with err back to the pool, or discards it if something of
// the transaction may be left on it.
func (d *driver) release(ctx context.Context, s *session, err error) {
	clean := err == nil || errors.Is(err, sql.ErrTxDone) || refused(err)
	if d.sqlite() {
		clean = cleanSQLite(ctx, s, err == nil)
	}
	if !clean {
		_ = s.conn.Raw(func(any) error { return sqldriver.ErrBadConn })
	}
	_ = s.conn.Close()
	s.cancel()
}
