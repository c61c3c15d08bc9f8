package fault

import (
	"database/sql/driver"
	"io"
	"reflect"
)

// rows are those of a query. To read them is no point, and the connection is not broken in its middle: drivers do not stand that.
type rows struct {
	driver.Rows
	conn *conn
}

func (r *rows) Next(dest []driver.Value) error {
	r.conn.mu.Lock()
	defer r.conn.mu.Unlock()
	if r.conn.closed {
		return driver.ErrBadConn
	}
	return r.Rows.Next(dest)
}

func (r *rows) Close() error {
	r.conn.mu.Lock()
	defer r.conn.mu.Unlock()
	return r.Rows.Close()
}

func (r *rows) HasNextResultSet() bool {
	more, ok := r.Rows.(driver.RowsNextResultSet)
	return ok && more.HasNextResultSet()
}

func (r *rows) NextResultSet() error {
	if more, ok := r.Rows.(driver.RowsNextResultSet); ok {
		return more.NextResultSet()
	}
	return io.EOF
}

func (r *rows) ColumnTypeScanType(i int) reflect.Type {
	if t, ok := r.Rows.(driver.RowsColumnTypeScanType); ok {
		return t.ColumnTypeScanType(i)
	}
	return reflect.TypeFor[any]()
}

func (r *rows) ColumnTypeDatabaseTypeName(i int) string {
	if t, ok := r.Rows.(driver.RowsColumnTypeDatabaseTypeName); ok {
		return t.ColumnTypeDatabaseTypeName(i)
	}
	return ""
}

func (r *rows) ColumnTypeLength(i int) (length int64, ok bool) {
	if t, has := r.Rows.(driver.RowsColumnTypeLength); has {
		return t.ColumnTypeLength(i)
	}
	return 0, false
}

func (r *rows) ColumnTypeNullable(i int) (nullable, ok bool) {
	if t, has := r.Rows.(driver.RowsColumnTypeNullable); has {
		return t.ColumnTypeNullable(i)
	}
	return false, false
}

func (r *rows) ColumnTypePrecisionScale(i int) (precision, scale int64, ok bool) {
	if t, has := r.Rows.(driver.RowsColumnTypePrecisionScale); has {
		return t.ColumnTypePrecisionScale(i)
	}
	return 0, 0, false
}
