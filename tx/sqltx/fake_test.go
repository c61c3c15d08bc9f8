package sqltx_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/sqltx"
)

// A fake is a database whose driver does what a test says. It is for what no real server does on request: a ROLLBACK that
// fails, a COMMIT that never returns.
type fake struct {
	// on is asked before each call of the driver, with BEGIN, COMMIT, ROLLBACK or the statement.
	on func(ctx context.Context, c *fakeConn, call string) error

	mu     sync.Mutex // guards what follows
	calls  []string
	opened int
	closed int
}

type fakeConn struct {
	f      *fake
	number int // from 1, in the order of opening
	dead   atomic.Bool
}

// open returns a DB over f with a pool of conns connections.
func (f *fake) open(t *testing.T, dialect *tx.Dialect, conns int) (*sql.DB, *tx.DB[*sql.Tx]) {
	t.Helper()
	pool := sql.OpenDB(f)
	pool.SetMaxOpenConns(conns)
	pool.SetMaxIdleConns(conns)
	t.Cleanup(func() { _ = pool.Close() })
	return pool, sqltx.New(pool, dialect, nil)
}

func (f *fake) Connect(context.Context) (driver.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.opened++
	return &fakeConn{f: f, number: f.opened}, nil
}

func (f *fake) Driver() driver.Driver { return nil }

func (f *fake) call(ctx context.Context, c *fakeConn, call string) error {
	f.mu.Lock()
	f.calls = append(f.calls, call)
	f.mu.Unlock()
	if f.on == nil {
		return nil
	}
	return f.on(ctx, c, call)
}

// state returns what has been called so far, and how many connections are open.
func (f *fake) state() (calls string, open int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.calls, " | "), f.opened - f.closed
}

func (c *fakeConn) Prepare(string) (driver.Stmt, error) { return nil, errors.New("not used") }
func (c *fakeConn) Begin() (driver.Tx, error)           { return nil, errors.New("not used") }
func (c *fakeConn) IsValid() bool                       { return !c.dead.Load() }
func (c *fakeConn) Commit() error                       { return c.f.call(context.Background(), c, "COMMIT") }

func (c *fakeConn) Rollback() error { return c.f.call(context.Background(), c, "ROLLBACK") }

func (c *fakeConn) Close() error {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	c.f.closed++
	return nil
}

func (c *fakeConn) BeginTx(ctx context.Context, _ driver.TxOptions) (driver.Tx, error) {
	if err := c.f.call(ctx, c, "BEGIN"); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *fakeConn) ExecContext(ctx context.Context, query string, _ []driver.NamedValue) (driver.Result, error) {
	return driver.RowsAffected(1), c.f.call(ctx, c, query)
}

func (c *fakeConn) QueryContext(ctx context.Context, query string, _ []driver.NamedValue) (driver.Rows, error) {
	return &fakeRows{}, c.f.call(ctx, c, query)
}

// fakeRows is one row with a zero.
type fakeRows struct{ read bool }

func (r *fakeRows) Columns() []string { return []string{"n"} }
func (r *fakeRows) Close() error      { return nil }

func (r *fakeRows) Next(values []driver.Value) error {
	if r.read {
		return io.EOF
	}
	r.read, values[0] = true, int64(0)
	return nil
}

// stateError is an error of a server.
type stateError string

func (e stateError) Error() string    { return "server: " + string(e) }
func (e stateError) SQLState() string { return string(e) }
