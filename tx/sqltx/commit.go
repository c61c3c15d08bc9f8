package sqltx

import (
	"database/sql"
	"errors"
	"reflect"

	"github.com/holdfast-go/holdfast/tx"
)

// errEndedByEngine says that an error ended the transaction. What the closure did after that error was committed at once.
var errEndedByEngine = &tx.EndedError{Err: tx.ErrTxAborted}

// commitError tells what the error of a COMMIT proves.
func (d *driver) commitError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sql.ErrTxDone), endedBefore(err):
		return tx.ErrEnded
	case rolledBack(err):
		return tx.ErrTxAborted
	case noTransaction(err):
		return errEndedByEngine
	case refused(err), sqlState(err) == idleInTransaction, d.sqlite() && tx.Classify(err) != tx.Lost:
		return err
	}
	return &tx.CommitUnknownError{Err: err}
}

// idleInTransaction is the last word of a server that ended the session before it read the COMMIT: it was waiting for it.
const idleInTransaction = "25P03"

// refused reports whether err proves that the transaction was not committed and that its connection is sound: the server
// itself answered the COMMIT with an error. What a driver says of a connection proves nothing: lib/pq gives
// driver.ErrBadConn for a lost reply, pgx says that it is safe to retry.
func refused(err error) bool {
	return rolledBack(err) || sqlState(err) != "" && !goingDown(err) && tx.Classify(err) != tx.Lost
}

// goingDown reports whether err is the last word of a server, which proves nothing: the commit can be on its disk. pgconn
// and lib/pq both keep the severity in fields.
func goingDown(err error) bool {
	var e interface{ SQLState() string }
	if !errors.As(err, &e) {
		return false
	}
	v := reflect.Indirect(reflect.ValueOf(e))
	if v.Kind() != reflect.Struct {
		return false
	}
	for _, name := range []string{"SeverityUnlocalized", "Severity"} {
		if f := v.FieldByName(name); f.IsValid() && f.Kind() == reflect.String && (f.String() == "FATAL" || f.String() == "PANIC") {
			return true
		}
	}
	return false
}

// tailError names the error of a statement before COMMIT in a PostgreSQL transaction that had failed already.
func tailError(err error) error {
	if sqlState(err) == "25P02" { // in_failed_sql_transaction
		return tx.ErrTxAborted
	}
	return err
}

func sqlState(err error) string {
	var e interface{ SQLState() string }
	if errors.As(err, &e) {
		return e.SQLState()
	}
	return ""
}
