package fault

import (
	"context"
	"database/sql/driver"
	"sync"
)

// A conn is a connection of database/sql. Each of its calls is a point.
type conn struct {
	driver.Conn
	in *Injector

	mu     sync.Mutex // held while the connection is used
	closed bool
}

// close breaks the connection. The caller holds mu.
func (c *conn) close() {
	if !c.closed {
		c.closed = true
		_ = c.Conn.Close()
	}
}

// shut breaks it from outside.
func (c *conn) shut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.close()
}

// Close is no point: whoever closes a connection wants nothing more of it.
func (c *conn) Close() error {
	c.shut()
	return nil
}

func (c *conn) do(name string, modes []Mode, act func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return driver.ErrBadConn
	}
	return connected(c.in.do(name, modes, c.close, act))
}

func (c *conn) IsValid() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.Conn.(driver.Validator)
	return !c.closed && (!ok || v.IsValid())
}

func (c *conn) ResetSession(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return driver.ErrBadConn
	}
	if r, ok := c.Conn.(driver.SessionResetter); ok {
		return r.ResetSession(ctx)
	}
	return nil
}

func (c *conn) CheckNamedValue(v *driver.NamedValue) error {
	if checker, ok := c.Conn.(driver.NamedValueChecker); ok {
		return checker.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

func (c *conn) Ping(ctx context.Context) error {
	return c.do("ping", aroundModes, func() error {
		if p, ok := c.Conn.(driver.Pinger); ok {
			return p.Ping(ctx)
		}
		return nil
	})
}

func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (res driver.Result, err error) {
	e, ok := c.Conn.(driver.ExecerContext)
	if !ok {
		return nil, driver.ErrSkip
	}
	err = c.do(text("exec", query), allModes, func() (err error) {
		res, err = e.ExecContext(ctx, query, args)
		return err
	})
	return res, err
}

func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	q, ok := c.Conn.(driver.QueryerContext)
	if !ok {
		return nil, driver.ErrSkip
	}
	return c.query(text("query", query), func() (driver.Rows, error) { return q.QueryContext(ctx, query, args) })
}

// query closes the rows of a query that is to fail after its effect, and before its connection.
func (c *conn) query(name string, act func() (driver.Rows, error)) (read driver.Rows, err error) {
	var got driver.Rows
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, driver.ErrBadConn
	}
	err = connected(c.in.do(name, aroundModes, func() {
		if got != nil {
			_ = got.Close()
			got = nil
		}
		c.close()
	}, func() (err error) {
		got, err = act()
		return err
	}))
	if err != nil && got != nil {
		_ = got.Close()
	}
	if err != nil {
		return nil, err
	}
	return &rows{got, c}, nil
}

func (c *conn) Prepare(query string) (driver.Stmt, error) {
	return c.PrepareContext(context.Background(), query)
}

func (c *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	var inner driver.Stmt
	err := c.do(text("prepare", query), aroundModes, func() (err error) {
		if p, ok := c.Conn.(driver.ConnPrepareContext); ok {
			inner, err = p.PrepareContext(ctx, query)
			return err
		}
		inner, err = c.Conn.Prepare(query)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &stmt{Stmt: inner, conn: c, query: query}, nil
}
