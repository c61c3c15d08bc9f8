package pgxtx

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/tx"
)

// New returns a DB over pool. It honours the pool's DefaultQueryExecMode and batch tracer. The pool stays the caller's,
// who closes it. New panics if pool is nil.
func New(pool *pgxpool.Pool) *tx.DB[pgx.Tx] {
	if pool == nil {
		panic("pgxtx: New: the pool is nil: look at the error of pgxpool.New")
	}
	config := pool.Config().ConnConfig
	d := &driver{pool: pool, pipe: pipe{mode: config.DefaultQueryExecMode, capacity: config.StatementCacheCapacity}}
	d.pipe.tracer, _ = config.Tracer.(pgx.BatchTracer)
	return tx.New(d)
}

type driver struct {
	pool *pgxpool.Pool
	pipe pipe
}

func (d *driver) Begin(ctx context.Context, o tx.Options, lead []*tx.Stmt) (pgx.Tx, error) {
	t, dead, err := d.begin(ctx, o, lead)
	if dead {
		// After a restart of the server every idle connection of the pool is dead, and each is found out by its BEGIN.
		for idle := d.pool.Stat().TotalConns(); dead && idle >= 0; idle-- {
			t, dead, err = d.begin(ctx, o, lead)
		}
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

// begin reports in dead whether the connection was lost before BEGIN was answered.
func (d *driver) begin(ctx context.Context, o tx.Options, lead []*tx.Stmt) (t *ownTx, dead bool, err error) {
	conn, err := d.pool.Acquire(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil, false, err
		}
		return nil, false, fmt.Errorf("%w: %w", tx.ErrNotSent, err)
	}
	t = &ownTx{pooled: conn, conn: conn.Conn(), pipe: &d.pipe}
	stmts := make([]*tx.Stmt, 0, 1+len(lead))
	stmts = append(append(stmts, &tx.Stmt{SQL: begin(o)}), lead...)
	returned := false
	defer func() {
		if !returned { // what takes the rows of a statement panicked, and replies are still to be read
			t.kill(ctx)
		}
	}()
	at, err := d.pipe.run(ctx, t.conn, stmts)
	if err != nil && at == 0 && stale(err) { // the session was reset: nothing has begun, and now everything is parsed anew
		at, err = d.pipe.run(ctx, t.conn, stmts)
	}
	returned = true
	if err != nil {
		t.abandon(ctx)
		return nil, at == 0 && tx.Classify(err) == tx.Lost, err
	}
	return t, false, nil
}

const (
	beginSQL  = "begin"
	commitSQL = "commit"
)

func begin(o tx.Options) string {
	query := beginSQL
	if level := o.Isolation.String(); level != "" {
		query += " isolation level " + level
	}
	if o.ReadOnly {
		query += " read only"
	}
	return query
}

// errLost: the closure did not look at the error that told it so.
var errLost = fmt.Errorf("pgxtx: the connection broke before the commit: %w", net.ErrClosed)

func (d *driver) Commit(ctx context.Context, t pgx.Tx, tail []*tx.Stmt) error {
	own := t.(*ownTx)
	if own.closed() {
		return pgx.ErrTxClosed
	}
	status := own.conn.PgConn().TxStatus() // the last one known, also of a connection that has died since
	if status != 'I' && own.conn.IsClosed() {
		own.release()
		return errLost
	}
	switch status {
	case 'I':
		own.release()
		return tx.ErrEnded
	case 'E':
		if len(tail) == 0 { // a tail may begin by returning to a savepoint, which cures the transaction
			own.abandon(ctx)
			return tx.ErrTxAborted
		}
	}
	commit := &tx.Stmt{SQL: commitSQL}
	stmts := make([]*tx.Stmt, 0, 1+len(tail))
	stmts = append(append(stmts, tail...), commit)
	returned := false
	defer func() {
		if !returned {
			own.kill(ctx)
		}
	}()
	tag, at, err := d.pipe.commit(ctx, own.conn, stmts)
	returned = true
	own.abandon(ctx)
	switch {
	case err == nil && tag == "ROLLBACK", aborted(err):
		return tx.ErrTxAborted
	case err == nil, at < len(tail) && fenceFailed(tail[at], err), !unknown(err):
		return err
	}
	return &tx.CommitUnknownError{Err: err}
}

// aborted reports whether the server refused a statement because an earlier one had failed.
func aborted(err error) bool {
	if err == nil {
		return false
	}
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.Code == "25P02" // in_failed_sql_transaction
}

// fenceFailed reports whether s, a statement before COMMIT, had to affect a row and did not, so that COMMIT did not run.
func fenceFailed(s *tx.Stmt, err error) bool {
	return s.MustAffect != nil && errors.Is(err, s.MustAffect)
}

// unknown reports whether err, of a pipeline that ends in COMMIT, leaves the outcome open. The server works in order, so an
// error that it sent for a statement proves that COMMIT did not run, or was refused. A server that is going down proves nothing at any place: all replies leave it together,
// and what a pooler says for one that is gone comes in place of the first. One that has ended the session because it was idle in
// the transaction, by idle_in_transaction_session_timeout, has not read what was sent then.
func unknown(err error) bool {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return pgErr.Code != idleInTransaction && (goingDown(pgErr) || tx.Classify(pgErr) == tx.Lost)
	}
	var unsent unsentError
	return !errors.As(err, &unsent)
}

const idleInTransaction = "25P03"

func goingDown(err *pgconn.PgError) bool {
	severity := err.SeverityUnlocalized
	if severity == "" {
		severity = err.Severity
	}
	return severity == "FATAL" || severity == "PANIC"
}

func (d *driver) Rollback(ctx context.Context, t pgx.Tx) error {
	own := t.(*ownTx)
	if own.closed() {
		return pgx.ErrTxClosed
	}
	ended := own.conn.PgConn().TxStatus() == 'I'
	own.abandon(ctx)
	if ended {
		return tx.ErrEnded
	}
	return nil
}

func (d *driver) Wrap(t pgx.Tx) tx.Tx { return wrapped{t: t} }

// Root returns the transaction around a savepoint that Begin of our transaction made.
func (d *driver) Root(t pgx.Tx) pgx.Tx {
	if sp, ok := t.(*savepointTx); ok {
		return sp.ownTx
	}
	return t
}

func (d *driver) Conn() tx.Conn { return poolConn{d.pool} }

// Pool tells that DBs of one pool share their transactions.
func (d *driver) Pool() any { return d.pool }

// Classify adds to [tx.Classify] what a statement cache can cause: the server dropped a prepared statement (DISCARD ALL)
// or its plan became invalid (ALTER TABLE). Both end the transaction, and the next attempt prepares anew.
func (d *driver) Classify(err error) tx.Class {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && (pgErr.Code == "26000" || pgErr.Code == "0A000" && pgErr.Routine == "RevalidateCachedQuery") {
		return tx.Retryable
	}
	return tx.Classify(err)
}
