package pessimistic

import (
	"database/sql/driver"
	"encoding"
	"fmt"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"
)

// maxKeys is how many rows of a table one call locks: a power of two below the parameters that SQLite takes.
const maxKeys = 1 << 14

// distinct returns each key once, or an [*InputError].
func (r Rows) distinct() ([]any, error) {
	bad := func(reason string) error { return &InputError{Name: r.table.Name, Reason: reason} }
	seen := make(map[any]bool, len(r.keys))
	keys := make([]any, 0, len(r.keys))
	for _, k := range r.keys {
		if k != nil && reflect.TypeOf(k) != reflect.TypeOf(r.keys[0]) {
			return nil, bad("the keys are of more than one type")
		}
		if reason := unfit(k); reason != "" {
			return nil, bad(reason)
		}
		v, err := valueOf(k)
		switch id := identity(v); {
		case err != nil:
			return nil, &InputError{Name: r.table.Name, Reason: "a key has no value", Err: err}
		case v == nil:
			return nil, bad("a key is nil")
		case !sound(v):
			return nil, bad("a key contains a NUL byte or is not valid UTF-8")
		case !reflect.ValueOf(id).Comparable():
			return nil, bad("a key is of a type that cannot be compared")
		case !seen[id]:
			seen[id] = true
			keys = append(keys, k)
		}
	}
	if len(keys) > maxKeys {
		return nil, bad("more than 16384 rows of a table in one call: lock a row that stands for them all, or the table")
	}
	return keys, nil
}

// unfit returns why a key cannot be one, and "" if it can.
func unfit(key any) string {
	if key == nil {
		return "a key is nil"
	}
	if reflect.TypeOf(key).Kind() == reflect.Pointer {
		return "a key is a pointer: give what it points to"
	}
	if composed(key) {
		return "a key has several parts: rows are locked by one column, so give that of another unique column"
	}
	return ""
}

// sound reports whether a value is no text that would end the transaction.
func sound(value any) bool {
	v := reflect.ValueOf(value)
	return v.Kind() != reflect.String || utf8.ValidString(v.String()) && !strings.ContainsRune(v.String(), 0)
}

// composed reports whether a key is made of several values: a struct or a list that does not know how to be one.
func composed(key any) bool {
	switch key.(type) {
	case time.Time, driver.Valuer, encoding.TextMarshaler, fmt.Stringer:
		return false
	}
	kind := reflect.TypeOf(key)
	switch kind.Kind() {
	case reflect.Struct:
		return true
	case reflect.Slice, reflect.Array:
		return kind.Elem().Kind() != reflect.Uint8
	}
	return false
}

// valueOf is what a key of several parts, such as a decimal, says that it is. The parts may point to memory that is the key's own.
func valueOf(key any) (any, error) {
	switch reflect.TypeOf(key).Kind() {
	case reflect.Struct, reflect.Slice, reflect.Array:
	default:
		return key, nil
	}
	switch k := key.(type) {
	case time.Time:
		return k, nil
	case driver.Valuer:
		return k.Value()
	case encoding.TextMarshaler:
		text, err := k.MarshalText()
		return string(text), err
	case fmt.Stringer:
		return k.String(), nil
	}
	return key, nil
}

// identity is a value as a map can hold it.
func identity(value any) any {
	if at, ok := value.(time.Time); ok {
		return at.UTC().Round(0)
	}
	if v := reflect.ValueOf(value); v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8 {
		return string(v.Bytes())
	}
	return value
}
