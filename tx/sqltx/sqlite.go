package sqltx

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/tx"
)

// lockSlice is how long SQLite waits for the write lock before it looks whether the caller still does. It does not look
// by itself while it waits.
const lockSlice = 50 * time.Millisecond

// beginSQLite makes of the deferred transaction t one that holds the write lock from its start, or one that cannot
// write. A deferred transaction that reads and then writes fails at once when another has written in between, and no
// busy timeout helps.
func (d *driver) beginSQLite(ctx context.Context, s *session, t *sql.Tx, readOnly bool) error {
	timeout, err := d.busy(ctx, t)
	if err != nil {
		return err
	}
	if readOnly {
		return beginQueryOnly(ctx, s, t, timeout)
	}
	query := "rollback; " + immediate(min(lockSlice, timeout), timeout)
	for deadline := time.Now().Add(timeout); ; {
		_, err := t.ExecContext(ctx, query)
		if err == nil || tx.Classify(err) != tx.Retryable || time.Now().After(deadline) || ctx.Err() != nil {
			return d.restoreBusy(ctx, t, timeout, err)
		}
		pause(ctx) // a database with a shared cache does not wait at all
		query = immediate(min(lockSlice, time.Until(deadline)), timeout)
	}
}

// immediate waits for the write lock for a slice, and for other locks as long as the connection always does.
func immediate(slice, timeout time.Duration) string {
	return fmt.Sprintf("pragma busy_timeout = %d; begin immediate; pragma busy_timeout = %d",
		max(0, slice.Milliseconds()), timeout.Milliseconds())
}

// restoreBusy undoes a slice that ended without the lock, for whoever gets the connection next.
func (d *driver) restoreBusy(ctx context.Context, t *sql.Tx, timeout time.Duration, err error) error {
	if err == nil {
		return nil
	}
	_, _ = t.ExecContext(context.WithoutCancel(ctx), setBusy(timeout))
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

func beginQueryOnly(ctx context.Context, s *session, t *sql.Tx, timeout time.Duration) error {
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
