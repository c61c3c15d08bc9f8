package fault

import (
	"context"
	"database/sql/driver"
	"errors"
)

// A stmt is a prepared statement. Running it is a point.
type stmt struct {
	driver.Stmt
	conn  *conn
	query string
}

func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (res driver.Result, err error) {
	err = s.conn.do(text("exec", s.query), aroundModes, func() (err error) {
		if e, ok := s.Stmt.(driver.StmtExecContext); ok {
			res, err = e.ExecContext(ctx, args)
			return err
		}
		values, err := positional(args)
		if err == nil {
			res, err = s.Stmt.Exec(values) //nolint:staticcheck // an old driver has nothing else
		}
		return err
	})
	return res, err
}

func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return s.conn.query(text("query", s.query), func() (driver.Rows, error) {
		if q, ok := s.Stmt.(driver.StmtQueryContext); ok {
			return q.QueryContext(ctx, args)
		}
		values, err := positional(args)
		if err != nil {
			return nil, err
		}
		return s.Stmt.Query(values) //nolint:staticcheck // an old driver has nothing else
	})
}

func (s *stmt) CheckNamedValue(v *driver.NamedValue) error {
	if checker, ok := s.Stmt.(driver.NamedValueChecker); ok {
		return checker.CheckNamedValue(v)
	}
	return s.conn.CheckNamedValue(v)
}

func positional(args []driver.NamedValue) ([]driver.Value, error) {
	var values []driver.Value
	for _, a := range args {
		if a.Name != "" {
			return nil, errors.New("fault: the driver has no named arguments")
		}
		values = append(values, a.Value)
	}
	return values, nil
}

func (c *conn) Begin() (driver.Tx, error) { return c.BeginTx(context.Background(), driver.TxOptions{}) }

func (c *conn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	var inner driver.Tx
	begun := false
	err := c.do("begin", aroundModes, func() (err error) {
		if b, ok := c.Conn.(driver.ConnBeginTx); ok {
			inner, err = b.BeginTx(ctx, o)
		} else {
			inner, err = c.Conn.Begin() //nolint:staticcheck // an old driver has nothing else
		}
		begun = err == nil
		return err
	})
	if err != nil {
		if begun {
			c.shut() // nobody could end the transaction
		}
		return nil, err
	}
	return &transaction{Tx: inner, conn: c}, nil
}

// A transaction is one that BeginTx began. Its end is a point.
type transaction struct {
	driver.Tx
	conn *conn
}

// Commit rolls back what the database refuses to commit. What it has committed it does not refuse: there the reply is lost.
func (t *transaction) Commit() error {
	committed := false
	err := t.conn.do("commit", aroundModes, func() error {
		err := t.Tx.Commit()
		committed = err == nil
		return err
	})
	switch {
	case !errors.Is(err, ErrRefused):
		return err
	case committed:
		return ErrLost
	}
	t.conn.mu.Lock()
	defer t.conn.mu.Unlock()
	if t.Tx.Rollback() != nil {
		t.conn.close()
	}
	return err
}

func (t *transaction) Rollback() error { return t.conn.do("rollback", aroundModes, t.Tx.Rollback) }
