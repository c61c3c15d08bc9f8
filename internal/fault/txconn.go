package fault

import (
	"context"

	"github.com/holdfast-go/holdfast/tx"
)

// A txConn is a [tx.Tx], or a [tx.Conn] without a batch. Each of its calls is a point.
type txConn struct {
	tx.Conn
	batch func(ctx context.Context, stmts ...*tx.Stmt) error
	in    *Injector
	s     *state
}

func (c txConn) do(name string, act func() error) error {
	if c.batch != nil && c.s.gone() {
		return ErrLost
	}
	return c.in.do(name, allModes, c.s.end, act)
}

func (c txConn) Exec(ctx context.Context, query string, args ...any) (n int64, err error) {
	err = c.do(text("exec", query), func() (err error) {
		n, err = c.Conn.Exec(ctx, query, args...)
		return err
	})
	return n, err
}

func (c txConn) Query(ctx context.Context, query string, args ...any) (rows tx.Rows, err error) {
	err = c.do(text("query", query), func() (err error) {
		rows, err = c.Conn.Query(ctx, query, args...)
		return err
	})
	if err != nil && rows != nil {
		rows.Close()
		return nil, err
	}
	return rows, err
}

// QueryRow is broken when its row is scanned, which is when the caller gets to know.
func (c txConn) QueryRow(ctx context.Context, query string, args ...any) tx.Row {
	return row(func(dest ...any) error {
		return c.do(text("query", query), func() error { return c.Conn.QueryRow(ctx, query, args...).Scan(dest...) })
	})
}

type row func(dest ...any) error

func (r row) Scan(dest ...any) error { return r(dest...) }

func (c txConn) Batch(ctx context.Context, stmts ...*tx.Stmt) error {
	if len(stmts) == 0 {
		return nil
	}
	return c.do(text("batch", stmts[0].SQL), func() error { return c.batch(ctx, stmts...) })
}
