package sqltx

import (
	"context"
	"database/sql"

	"github.com/holdfast-go/holdfast/tx"
)

// poolConn runs statements outside a transaction, each on some connection of the pool.
type poolConn struct{ d *driver }

func (c poolConn) Dialect() *tx.Dialect { return c.d.dialect }

// open returns a connection to run a statement on. A *sql.DB would not do: it runs the statement again when the driver
// returns driver.ErrBadConn, which pgx (for one without arguments) and lib/pq do also when the reply was lost. The price
// is that a connection which died in the pool is found out by a statement that fails.
func (c poolConn) open(ctx context.Context) (conn *sql.Conn, done func(), err error) {
	conn, err = c.d.acquire(ctx)
	switch {
	case err == nil:
	case ctx.Err() != nil: // nothing was sent
		return nil, nil, &tx.AbortError{Err: err}
	default:
		return nil, nil, err
	}
	done = func() { _ = conn.Close() }
	if !c.d.sqlite() {
		return conn, done, nil
	}
	timeout, err := c.d.busy(ctx, conn)
	if err == nil {
		_, err = conn.ExecContext(ctx, setBusy(timeout))
	}
	if err != nil {
		done()
		return nil, nil, err
	}
	return conn, done, nil
}

func (c poolConn) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	q, done, err := c.open(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	return exec(ctx, q, c.d.rebind(query), args)
}

func (c poolConn) Query(ctx context.Context, query string, args ...any) (tx.Rows, error) {
	q, done, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	r, err := q.QueryContext(ctx, c.d.rebind(query), args...)
	if err != nil {
		done()
		return nil, err
	}
	return rows{Rows: r, done: done}, nil
}

func (c poolConn) QueryRow(ctx context.Context, query string, args ...any) tx.Row {
	q, done, err := c.open(ctx)
	if err != nil {
		return failedRow{err}
	}
	return row{Row: q.QueryRowContext(ctx, c.d.rebind(query), args...), done: done}
}
