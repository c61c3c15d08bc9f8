package tx

import (
	"reflect"
	"strings"
)

// UniqueViolation reports whether err is a violation of a unique constraint or index, and of which. On PostgreSQL that
// is its name. SQLite names the columns instead, as "table.column, table.other", or an index on an expression as
// "index 'name'".
//
// The unique constraint is what decides a race between two inserts: let both run and ask here which lost.
func UniqueViolation(err error) (constraint string, ok bool) { return violation(err, Unique) }

// ExclusionViolation reports whether err is a violation of an exclusion constraint, and of which. Two inserts that conflict
// at the same moment can wait for each other instead and deadlock (40P01), which is Retryable: [DB.Do] runs the victim
// again, and then this is its error.
func ExclusionViolation(err error) (constraint string, ok bool) { return violation(err, Exclusion) }

// ForeignKeyViolation reports whether err is a violation of a foreign key, and of which. SQLite does not tell which.
func ForeignKeyViolation(err error) (constraint string, ok bool) { return violation(err, ForeignKey) }

// CheckViolation reports whether err is a violation of a check constraint, and of which: on SQLite its name, or its
// expression if it has none.
func CheckViolation(err error) (constraint string, ok bool) { return violation(err, Check) }

func violation(err error, class Class) (string, bool) {
	if Classify(err) != class {
		return "", false
	}
	if _, message, ok := sqliteError(err); ok {
		return constraintInMessage(message), true
	}
	return constraintField(err), true
}

// constraintInMessage takes the name out of, for example, "constraint failed: UNIQUE constraint failed: user.email
// (2067)", which modernc.org/sqlite and mattn/go-sqlite3 both derive from SQLite's own text.
func constraintInMessage(message string) string {
	const marker = " constraint failed: "
	i := strings.LastIndex(message, marker)
	if i < 0 {
		return ""
	}
	name := message[i+len(marker):]
	if j := strings.LastIndex(name, " ("); j >= 0 && strings.HasSuffix(name, ")") && isNumber(name[j+2:len(name)-1]) {
		name = name[:j]
	}
	return name
}

func isNumber(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// constraintField reads the field ConstraintName of a pgconn.PgError or Constraint of a pq.Error.
func constraintField(err error) (name string) {
	walk(err, func(e error) bool {
		if _, ok := e.(interface{ SQLState() string }); !ok {
			return false
		}
		v := reflect.Indirect(reflect.ValueOf(e))
		if v.Kind() != reflect.Struct {
			return false
		}
		for _, field := range []string{"ConstraintName", "Constraint"} {
			if f := v.FieldByName(field); f.IsValid() && f.Kind() == reflect.String {
				name = f.String()
				return true
			}
		}
		return false
	})
	return name
}
