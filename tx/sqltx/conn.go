package sqltx

import (
	"context"

	"github.com/holdfast-go/holdfast/tx"
)

// poolConn runs statements outside a transaction, each on a connection of the pool.
type poolConn struct{ d *driver }

func (c poolConn) Dialect() *tx.Dialect { return c.d.dialect }

func (c poolConn) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	conn, err := c.d.acquire(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	result, err := conn.ExecContext(ctx, c.d.rebind(query), args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (c poolConn) Query(ctx context.Context, query string, args ...any) (tx.Rows, error) {
	conn, err := c.d.acquire(ctx)
	if err != nil {
		return nil, err
	}
	r, err := conn.QueryContext(ctx, c.d.rebind(query), args...)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return rows{Rows: r, conn: conn}, nil
}

func (c poolConn) QueryRow(ctx context.Context, query string, args ...any) tx.Row {
	r, err := c.Query(ctx, query, args...)
	return firstRow{rows: r, err: err}
}

// firstRow is the first of rows that hold a connection of their own until it is scanned.
type firstRow struct {
	rows tx.Rows
	err  error
}

func (r firstRow) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	defer r.rows.Close()
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return tx.ErrNoRows
	}
	return r.rows.Scan(dest...)
}
