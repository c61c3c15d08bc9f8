package sqltx

import (
	"context"
	"database/sql"
	"errors"
	"reflect"

	"github.com/holdfast-go/holdfast/tx"
)

// stillOpen returns an error if the transaction was ended without database/sql: a statement that followed would be
// committed at once, and a COMMIT would commit nothing. before tells whether statements follow before the COMMIT.
func (d *driver) stillOpen(ctx context.Context, s *session, t *sql.Tx, before bool) error {
	if !d.sqlite() {
		if txStatus(s.conn) == 'I' {
			return tx.ErrEnded
		}
		return nil
	}
	if !before {
		return nil // the COMMIT itself will tell
	}
	// SQLite has no function that tells, but it refuses a BEGIN within a transaction.
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

// txStatus returns what the server last said about the transaction of conn: 'I' for none, 'T' or 'E'. It asks the
// *stdlib.Conn of pgx, without importing pgx, and returns 0 for other drivers: lib/pq looks at the status by itself.
func txStatus(conn *sql.Conn) (status byte) {
	_ = conn.Raw(func(driverConn any) error {
		v := reflect.ValueOf(driverConn)
		for _, method := range [...]string{"Conn", "PgConn", "TxStatus"} {
			m := v.MethodByName(method)
			if !m.IsValid() || m.Type().NumIn() != 0 || m.Type().NumOut() != 1 {
				return nil
			}
			v = m.Call(nil)[0]
		}
		if v.Kind() == reflect.Uint8 {
			status = byte(v.Uint())
		}
		return nil
	})
	return status
}
