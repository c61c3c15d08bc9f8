package sqltx

import (
	"context"

	"github.com/holdfast-go/holdfast/tx"
)

// poolConn runs statements outside a transaction, each on some connection of the pool.
type poolConn struct{ d *driver }

func (c poolConn) Dialect() *tx.Dialect { return c.d.dialect }

// open returns what to run a statement on. SQLite needs a connection that waits for locks; elsewhere database/sql picks
// one, and another when the driver says that the statement did not reach the server. once keeps it from that: pgx sends a
// statement without arguments by the simple protocol, and then (v5.12) says so of a lost reply too.
func (c poolConn) open(ctx context.Context, once bool) (q querier, done func(), err error) {
	if !c.d.sqlite() && !once {
		return c.d.db, func() {}, nil
	}
	conn, err := c.d.acquire(ctx)
	if err != nil {
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
	q, done, err := c.open(ctx, len(args) == 0)
	if err != nil {
		return 0, err
	}
	defer done()
	return exec(ctx, q, c.d.rebind(query), args)
}

func (c poolConn) Query(ctx context.Context, query string, args ...any) (tx.Rows, error) {
	q, done, err := c.open(ctx, false)
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
	q, done, err := c.open(ctx, false)
	if err != nil {
		return failedRow{err}
	}
	return row{Row: q.QueryRowContext(ctx, c.d.rebind(query), args...), done: done}
}
