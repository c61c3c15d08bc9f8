package pessimistic

import (
	"database/sql/driver"
	"encoding"
	"fmt"
	"reflect"
	"strings"
	"time"
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
		id, err := identity(k)
		switch {
		case err != nil:
			return nil, &InputError{Name: r.table.Name, Reason: "a key has no value", Err: err}
		case id == nil:
			return nil, bad("a key is nil")
		case !reflect.ValueOf(id).Comparable():
			return nil, bad("a key is of a type that cannot be compared")
		}
		if !seen[id] {
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
	switch v := reflect.ValueOf(key); {
	case v.Kind() == reflect.Pointer:
		return "a key is a pointer: give what it points to"
	case composed(key):
		return "a key has several parts: rows are locked by one column, so give that of another unique column"
	case v.Kind() == reflect.String && (strings.ContainsRune(v.String(), 0) || strings.ToValidUTF8(v.String(), "") != v.String()):
		return "a key contains a NUL byte or is not valid UTF-8"
	}
	return ""
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

// identity is a key as a map can hold it. One of several parts, such as a decimal, is what it says to be: the parts may point
// to memory that is the key's own.
func identity(key any) (any, error) {
	v := reflect.ValueOf(key)
	if at, ok := key.(time.Time); ok {
		return at.UTC().Round(0), nil
	}
	switch v.Kind() {
	case reflect.Struct, reflect.Slice, reflect.Array:
	default:
		return key, nil
	}
	switch k := key.(type) {
	case driver.Valuer:
		value, err := k.Value()
		if text, ok := value.([]byte); ok {
			return string(text), err
		}
		return value, err
	case encoding.TextMarshaler:
		text, err := k.MarshalText()
		return string(text), err
	case fmt.Stringer:
		return k.String(), nil
	}
	if v.Kind() == reflect.Slice { // of bytes, as composed says
		return string(v.Bytes()), nil
	}
	return key, nil
}
