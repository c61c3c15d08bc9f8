package tx

import (
	"database/sql/driver"
	"errors"
	"io"
	"net"
)

// sqlState returns the SQLSTATE that err carries, as pgconn.PgError and pq.Error do, or "".
func sqlState(err error) string {
	var e interface{ SQLState() string }
	if errors.As(err, &e) {
		return e.SQLState()
	}
	return ""
}

// classOfState sorts a SQLSTATE. Source: https://www.postgresql.org/docs/current/errcodes-appendix.html.
func classOfState(state string) Class {
	switch state {
	case "40001", "40P01": // serialization_failure, deadlock_detected
		return Retryable
	case "23505":
		return Unique
	case "23P01":
		return Exclusion
	case "23503":
		return ForeignKey
	case "23514":
		return Check
	case "25006": // read_only_sql_transaction
		return ReadOnly
	case "42P01", "42703", "3F000": // undefined_table, undefined_column, invalid_schema_name
		return Undefined
	case "53300", "57P03": // too_many_connections, cannot_connect_now: refused while connecting
		return NotSent
	// admin_shutdown, crash_shutdown, database_dropped, idle_session_timeout, idle_in_transaction_session_timeout,
	// statement_completion_unknown
	case "57P01", "57P02", "57P04", "57P05", "25P03", "40003":
		return Lost
	}
	if len(state) == 5 && state[:2] == "08" { // connection exceptions
		return Lost
	}
	return Permanent
}

// classOfConnection sorts the errors of a connection, which carry no code.
func classOfConnection(err error) Class {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return NotSent
	}
	var netErr net.Error
	if errors.As(err, &netErr) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, driver.ErrBadConn) || closedConn(err) {
		return Lost
	}
	return Permanent
}

// retryHint is what pgx's errors of a connection are.
type retryHint interface {
	error
	SafeToRetry() bool
}

// unsent reports whether pgx says that nothing was sent.
func unsent(err error) bool {
	var e retryHint
	return errors.As(err, &e) && e.SafeToRetry() && !closedConn(err)
}

// closedConn reports whether pgx says that the connection is closed. Its claim that this is safe to retry is not to be
// believed: in the simple protocol it says so too (v5.12) when the connection broke before the reply came.
func closedConn(err error) bool {
	var e retryHint
	return errors.As(err, &e) && e.Error() == "conn closed"
}
