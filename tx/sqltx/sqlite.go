package sqltx

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/tx"
)

// lockSlice is how long SQLite waits for the write lock before we look whether the caller still does. While it waits it
// does not look by itself, and the drivers cannot interrupt it.
const lockSlice = 50 * time.Millisecond

// beginSQLite begins a transaction that holds the write lock from its start, or one that cannot write. A deferred
// transaction, which is what BeginTx gives, fails at once when it reads and then writes while another has written in
// between, and no busy timeout helps. No statement here waits for longer than a slice, so none is given ctx: drivers pay a
// goroutine for a context that can end.
func (d *driver) beginSQLite(ctx context.Context, s *session, readOnly bool) (t *sql.Tx, err error) {
	lasting := context.WithoutCancel(ctx)
	timeout, err := d.busy(lasting, s.conn)
	if err != nil {
		return nil, err
	}
	slice := min(lockSlice, timeout)
	if _, err := s.conn.ExecContext(lasting, setBusy(slice)); err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(timeout - slice); ; {
		t, err = s.conn.BeginTx(lasting, &sql.TxOptions{ReadOnly: readOnly}) // waits if the data source name says so
		if err == nil {
			err = s.shape(lasting, t, readOnly, timeout)
		}
		if err == nil {
			return t, nil
		}
		if tx.Classify(err) != tx.Retryable || !time.Now().Before(deadline) || ctx.Err() != nil {
			break
		}
		if t != nil {
			_ = t.Rollback()
		}
		pause(ctx) // a database with a shared cache does not wait at all
	}
	// For whoever is next. A connection that is found dead while t is open would be waited for by both.
	if t != nil {
		_, _ = t.ExecContext(lasting, setBusy(timeout))
	} else {
		_, _ = s.conn.ExecContext(lasting, setBusy(timeout))
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return t, err
}

// shape makes of t what it is to be, and restores the time that the connection waits for locks.
func (s *session) shape(ctx context.Context, t *sql.Tx, readOnly bool, timeout time.Duration) error {
	if !readOnly {
		_, err := t.ExecContext(ctx, "rollback; begin immediate; "+setBusy(timeout))
		return err
	}
	var already bool
	if err := t.QueryRowContext(ctx, "pragma query_only").Scan(&already); err != nil {
		return err
	}
	query := setBusy(timeout)
	if !already {
		query += "; pragma query_only = on"
		s.queryOnly = true
	}
	_, err := t.ExecContext(ctx, query)
	return err
}

func pause(ctx context.Context) {
	timer := time.NewTimer(time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// querier is a *sql.DB, *sql.Conn or *sql.Tx.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// busy returns how long the connection is to wait for locks: as long as the data source name says, if it does.
func (d *driver) busy(ctx context.Context, q querier) (time.Duration, error) {
	var ms int64
	if err := q.QueryRowContext(ctx, "pragma busy_timeout").Scan(&ms); err != nil {
		return 0, err
	}
	if ms > 0 {
		return time.Duration(ms) * time.Millisecond, nil
	}
	return max(time.Millisecond, d.busyTimeout), nil
}

func setBusy(timeout time.Duration) string {
	return fmt.Sprintf("pragma busy_timeout = %d", timeout.Milliseconds())
}

// cleanSQLite makes sure that nothing of a transaction is left on its connection, and reports whether that is so. ended
// tells whether the transaction was ended without an error; otherwise SQLite may still hold it open.
func cleanSQLite(ctx context.Context, s *session, ended bool) bool {
	if !ended {
		_, err := s.conn.ExecContext(ctx, "rollback")
		ended = err == nil || noTransaction(err)
	}
	if s.queryOnly {
		_, err := s.conn.ExecContext(ctx, "pragma query_only = off")
		ended = ended && err == nil
	}
	return ended
}
