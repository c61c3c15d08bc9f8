package tx

import (
	"context"
	"errors"
	"reflect"
	"strings"
)

// SQLite result codes. Source: https://www.sqlite.org/rescode.html.
const (
	sqliteGeneric    = 1
	sqliteBusy       = 5
	sqliteLocked     = 6
	sqliteNoMemory   = 7
	sqliteReadOnly   = 8
	sqliteInterrupt  = 9
	sqliteIOError    = 10
	sqliteFull       = 13
	sqliteConstraint = 19

	sqliteConstraintCheck      = sqliteConstraint | 1<<8
	sqliteConstraintForeignKey = sqliteConstraint | 3<<8
	sqliteConstraintPrimaryKey = sqliteConstraint | 6<<8
	sqliteConstraintTrigger    = sqliteConstraint | 7<<8
	sqliteConstraintUnique     = sqliteConstraint | 8<<8
	sqliteConstraintRowID      = sqliteConstraint | 10<<8
)

// classOfSQLite sorts an extended result code. SQLite has no code of its own for a missing table, so that one class is
// told by the message.
func classOfSQLite(code int, message string) Class {
	switch code {
	case sqliteConstraintUnique, sqliteConstraintPrimaryKey, sqliteConstraintRowID:
		return Unique
	case sqliteConstraintForeignKey:
		return ForeignKey
	case sqliteConstraintCheck:
		return Check
	}
	switch code & 0xff {
	case sqliteBusy, sqliteLocked:
		return Retryable
	case sqliteReadOnly:
		return ReadOnly
	case sqliteIOError:
		return Lost
	case sqliteGeneric:
		for _, missing := range []string{"no such table", "no such column", "has no column named"} {
			if strings.Contains(message, missing) {
				return Undefined
			}
		}
	}
	return Permanent
}

// endsTransaction reports whether err is one of those after which SQLite may have rolled the whole transaction back by
// itself: see https://www.sqlite.org/lang_transaction.html. A context that ends interrupts the statement, and a trigger
// can say RAISE(ROLLBACK). A closure that returns such an error did nothing after it.
func endsTransaction(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	code, _, ok := sqliteError(err)
	if !ok {
		return false
	}
	switch code & 0xff {
	case sqliteBusy, sqliteNoMemory, sqliteInterrupt, sqliteIOError, sqliteFull:
		return true
	}
	return code == sqliteConstraintTrigger
}

// sqliteError finds an error of a SQLite driver in the chain of err: of modernc.org/sqlite, which has a method Code, or
// of mattn/go-sqlite3, which has fields. Other packages' errors with such members are left alone.
func sqliteError(err error) (code int, message string, ok bool) {
	walk(err, func(e error) bool {
		t := reflect.TypeOf(e)
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if !strings.Contains(t.PkgPath(), "sqlite") {
			return false
		}
		if c, has := e.(interface{ Code() int }); has {
			code, message, ok = c.Code(), e.Error(), true
			return true
		}
		v := reflect.Indirect(reflect.ValueOf(e))
		if v.Kind() != reflect.Struct {
			return false
		}
		for _, name := range []string{"ExtendedCode", "Code"} {
			if f := v.FieldByName(name); f.IsValid() && f.CanInt() && f.Int() != 0 {
				code, message, ok = int(f.Int()), e.Error(), true
				return true
			}
		}
		return false
	})
	return code, message, ok
}

// walk calls visit for each error in the tree of err until visit returns true.
func walk(err error, visit func(error) bool) bool {
	if err == nil {
		return false
	}
	if visit(err) {
		return true
	}
	switch e := err.(type) { //nolint:errorlint // the tree is walked node by node, as errors.As does
	case interface{ Unwrap() error }:
		return walk(e.Unwrap(), visit)
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			if walk(inner, visit) {
				return true
			}
		}
	}
	return false
}
