package pgxtx

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/tx"
)

// wrapped is what patterns see of a pgx.Tx, ours or anybody's.
type wrapped struct{ t pgx.Tx }

func (w wrapped) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	tag, err := w.t.Exec(ctx, query, args...)
	return tag.RowsAffected(), err
}

func (w wrapped) Query(ctx context.Context, query string, args ...any) (tx.Rows, error) {
	return w.t.Query(ctx, query, args...)
}

func (w wrapped) QueryRow(ctx context.Context, query string, args ...any) tx.Row {
	return row{w.t.QueryRow(ctx, query, args...)}
}

func (w wrapped) Dialect() *tx.Dialect { return tx.PostgreSQL }

// Batch goes through the pipe if the connection is certain to be ours. Anybody else's transaction is spoken to by its
// own methods, since only they know whether it is still open.
func (w wrapped) Batch(ctx context.Context, stmts ...*tx.Stmt) error {
	if own, ok := w.t.(*ownTx); ok {
		if own.closed() {
			return pgx.ErrTxClosed
		}
		_, err := own.pipe.run(ctx, own.conn, stmts)
		return err
	}
	if conn := w.t.Conn(); conn != nil && conn.PgConn().TxStatus() == 'E' {
		// pgx would prepare the whole batch first, and only the one that returns to a savepoint can be prepared now.
		_, _, err := oneByOne(ctx, w.t, stmts)
		return err
	}
	b := &pgx.Batch{}
	for _, s := range stmts {
		b.Queue(text(s), s.Args...)
	}
	results := w.t.SendBatch(ctx, b)
	for _, s := range stmts {
		rows, err := results.Query()
		if err == nil {
			_, err = settle(rows, s)
		}
		if err != nil {
			_ = results.Close()
			return s.Refused(err)
		}
	}
	return results.Close()
}

type row struct{ pgx.Row }

func (r row) Scan(dest ...any) error {
	err := r.Row.Scan(dest...)
	if errors.Is(err, pgx.ErrNoRows) {
		return tx.ErrNoRows
	}
	return err
}

// poolConn runs statements outside a transaction.
type poolConn struct{ pool *pgxpool.Pool }

// open takes a connection by itself, so that an error of it is told from one of the statement: nothing was sent.
func (c poolConn) open(ctx context.Context) (*pgxpool.Conn, error) {
	conn, err := c.pool.Acquire(ctx)
	switch {
	case err == nil:
		return conn, nil
	case ctx.Err() != nil:
		return nil, &tx.AbortError{Err: err}
	}
	return nil, fmt.Errorf("%w: %w", tx.ErrNotSent, err)
}

func (c poolConn) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	conn, err := c.open(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Release()
	tag, err := conn.Exec(ctx, query, args...)
	return tag.RowsAffected(), err
}

func (c poolConn) Query(ctx context.Context, query string, args ...any) (tx.Rows, error) {
	conn, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	r, err := conn.Query(ctx, query, args...)
	if err != nil {
		conn.Release()
		return nil, err
	}
	return &pooledRows{Rows: r, conn: conn}, nil
}

func (c poolConn) QueryRow(ctx context.Context, query string, args ...any) tx.Row {
	conn, err := c.open(ctx)
	if err != nil {
		return row{errRows{err}}
	}
	return pooledRow{row{conn.QueryRow(ctx, query, args...)}, conn}
}

// pooledRows give their connection back when they are closed, by the caller or after the last row.
type pooledRows struct {
	pgx.Rows

	conn *pgxpool.Conn
}

func (r *pooledRows) Next() bool {
	more := r.Rows.Next()
	if !more {
		r.Close()
	}
	return more
}

func (r *pooledRows) Close() {
	r.Rows.Close()
	if r.conn != nil {
		r.conn.Release()
		r.conn = nil
	}
}

type pooledRow struct {
	row

	conn *pgxpool.Conn
}

func (r pooledRow) Scan(dest ...any) error {
	defer r.conn.Release()
	return r.row.Scan(dest...)
}

func (c poolConn) Dialect() *tx.Dialect { return tx.PostgreSQL }
