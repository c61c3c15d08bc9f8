package sqltx

import (
	"database/sql"
	"errors"

	"github.com/holdfast-go/holdfast/tx"
)

// rows are the rows of a query. done, if it is set, gives back the connection that they came on.
type rows struct {
	*sql.Rows
	done func()
}

func (r rows) Close() {
	_ = r.Rows.Close()
	if r.done != nil {
		r.done()
	}
}

type row struct {
	*sql.Row
	done func()
}

func (r row) Scan(dest ...any) error {
	if r.done != nil {
		defer r.done()
	}
	err := r.Row.Scan(dest...)
	if errors.Is(err, sql.ErrNoRows) {
		return tx.ErrNoRows
	}
	return err
}

// failedRow is the row of a query that could not run.
type failedRow struct{ err error }

func (r failedRow) Scan(...any) error { return r.err }
