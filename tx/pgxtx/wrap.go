package pgxtx

import (
	"context"
	"errors"

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

func (c poolConn) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	tag, err := c.pool.Exec(ctx, query, args...)
	return tag.RowsAffected(), err
}

func (c poolConn) Query(ctx context.Context, query string, args ...any) (tx.Rows, error) {
	return c.pool.Query(ctx, query, args...)
}

func (c poolConn) QueryRow(ctx context.Context, query string, args ...any) tx.Row {
	return row{c.pool.QueryRow(ctx, query, args...)}
}

func (c poolConn) Dialect() *tx.Dialect { return tx.PostgreSQL }
