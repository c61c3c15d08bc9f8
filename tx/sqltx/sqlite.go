package sqltx

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/tx"
)

// beginSQLite makes of the deferred transaction t one that holds the write lock from its start, or one that cannot
// write. A deferred transaction that reads and then writes fails at once when another has written in between, and no
// busy timeout helps.
func beginSQLite(ctx context.Context, s *session, t *sql.Tx, readOnly bool) error {
	if !readOnly {
		_, err := t.ExecContext(ctx, "rollback; begin immediate")
		return err
	}
	var already bool
	if err := t.QueryRowContext(ctx, "pragma query_only").Scan(&already); err != nil || already {
		return err
	}
	s.queryOnly = true
	_, err := t.ExecContext(ctx, "pragma query_only = on")
	return err
}

func setBusyTimeout(ctx context.Context, conn *sql.Conn, timeout time.Duration) error {
	var ms int64
	if err := conn.QueryRowContext(ctx, "pragma busy_timeout").Scan(&ms); err != nil || ms > 0 {
		return err
	}
	_, err := conn.ExecContext(ctx, fmt.Sprintf("pragma busy_timeout = %d", max(1, timeout.Milliseconds())))
	return err
}

// errEndedByEngine is what a statement that follows an error which ended the transaction must not go past.
var errEndedByEngine = &tx.EndedError{Err: tx.ErrTxAborted}

// stillOpen makes sure that a SQLite transaction is open: some errors end it, and a statement after them would be
// committed at once. SQLite has no function that tells, but it refuses a BEGIN within a transaction.
func (d *driver) stillOpen(ctx context.Context, t *sql.Tx) error {
	if !d.sqlite() {
		return nil
	}
	_, err := t.ExecContext(ctx, "begin")
	switch {
	case err == nil:
		return errEndedByEngine
	case withinTransaction(err):
		return nil
	case errors.Is(err, sql.ErrTxDone):
		return tx.ErrEnded
	}
	return err
}
