package tx_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/sqltx"
)

// A refusing connector returns an error for statements that begin with some words, as a disk that fails does. It is what
// no SQLite does on request.
type refusing struct {
	driver.Connector
	words string
	err   error
}

type refusingConn struct {
	driver.Conn
	r *refusing
}

func (r *refusing) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := r.Connector.Connect(ctx)
	return refusingConn{conn, r}, err
}

func (c refusingConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	return c.Conn.(driver.ConnBeginTx).BeginTx(ctx, o)
}

func (c refusingConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
}

func (c refusingConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if c.r.words != "" && (strings.HasPrefix(query, c.r.words) || errors.Is(c.r.err, driver.ErrBadConn) && strings.HasPrefix(query, "pragma busy_timeout = 5000")) {
		return nil, c.r.err
	}
	return c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
}

func openRefusing(t *testing.T) (*refusing, *tx.DB[*sql.Tx], *sql.DB) {
	t.Helper()
	dsn := "file:" + filepath.Join(t.TempDir(), "a.db")
	plain, err := sql.Open("sqlite", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = plain.Close() })
	r := &refusing{Connector: connector{plain.Driver(), dsn}}
	pool := sql.OpenDB(r)
	pool.SetMaxOpenConns(1)
	t.Cleanup(func() { _ = pool.Close() })
	if _, err := pool.ExecContext(t.Context(), "create table entry (n integer)"); err != nil {
		t.Fatal(err)
	}
	return r, sqltx.New(pool, tx.SQLite, nil), pool
}

type connector struct {
	driver driver.Driver
	dsn    string
}

func (c connector) Connect(context.Context) (driver.Conn, error) { return c.driver.Open(c.dsn) }
func (c connector) Driver() driver.Driver                        { return c.driver }

// A savepoint that cannot be returned to leaves in the transaction what was to be undone. That must not be committed.
func TestWhatCannotBeUndoneIsNotCommitted(t *testing.T) {
	t.Parallel()
	r, db, pool := openRefusing(t)
	failed, mine := errors.New("the closure failed"), errors.New("the outer closure failed")
	r.err = errors.New("the disk failed")
	for _, returned := range []error{nil, mine} {
		r.words = tx.BackToSavepoint
		err := db.Do(t.Context(), func(ctx context.Context, nt *sql.Tx) error {
			err := db.Nested(ctx, nt, func(ctx context.Context, nt *sql.Tx) error {
				if _, err := nt.ExecContext(ctx, "insert into entry values (1)"); err != nil {
					return err
				}
				return failed
			})
			if !errors.Is(err, failed) {
				t.Errorf("the savepoint returned %v", err)
			}
			return returned // it goes on
		})
		r.words = ""
		want := r.err
		if returned != nil {
			want = returned
		}
		if !errors.Is(err, want) || holdfast.OutcomeOf(err) != holdfast.NotApplied {
			t.Errorf("got %v, want %v", err, want)
		}
		var n int
		if err := pool.QueryRowContext(t.Context(), "select count(*) from entry").Scan(&n); err != nil || n != 0 {
			t.Errorf("%d entries of what was undone, error %v", n, err)
		}
	}
}

// A connection that breaks while SQLite's transaction is made ready must not be waited for by the transaction that holds it.
func TestSQLiteBeginOnDeadConnectionReturns(t *testing.T) {
	t.Parallel()
	r, db, _ := openRefusing(t)
	r.words, r.err = "", driver.ErrBadConn
	returned := make(chan error, 1)
	r.words = "rollback; begin immediate"
	go func() {
		// What restores the busy timeout finds the connection as dead.
		returned <- db.With(tx.Options{Attempts: 1}).Do(context.Background(), func(context.Context, *sql.Tx) error { return nil })
	}()
	select {
	case err := <-returned:
		if holdfast.OutcomeOf(err) != holdfast.NotApplied {
			t.Errorf("got %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("Do did not return")
	}
}
