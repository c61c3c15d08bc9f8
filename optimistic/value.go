package optimistic

import (
	"database/sql/driver"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
)

// sent is what a driver makes of an argument: the end of its pointers, and what a Valuer says.
func sent(v any) (any, error) {
	for {
		r := reflect.ValueOf(v)
		if !r.IsValid() || r.Kind() == reflect.Pointer && r.IsNil() {
			return nil, nil //nolint:nilnil // NULL
		}
		switch x := v.(type) {
		case driver.Valuer:
			return x.Value()
		case json.Marshaler: // of the pointer, it may be
			return v, nil
		}
		if r.Kind() != reflect.Pointer {
			return v, nil
		}
		v = r.Elem().Interface()
	}
}

// nameOf is a key as a text, the same for all that stand for one value.
func nameOf(key any) string {
	if v, err := sent(key); err == nil {
		key = v
	}
	return fmt.Sprint(key)
}

// plain is an argument as JSON takes it, bytes in the form that PostgreSQL reads. It refuses what JSON would change.
func plain(v any) (any, error) {
	v, err := sent(v)
	if err != nil || v == nil {
		return nil, err
	}
	if _, own := v.(json.Marshaler); own {
		return v, nil
	}
	r := reflect.ValueOf(v)
	switch r.Kind() {
	case reflect.String:
		if !sound(r.String()) {
			return nil, invalid("it is not valid UTF-8, or has a NUL")
		}
	case reflect.Float32: // whose shortest text is another number of 64 bits
		return r.Float(), nil
	case reflect.Slice:
		if r.IsNil() {
			return nil, nil //nolint:nilnil // NULL
		}
		if r.Type().Elem().Kind() == reflect.Uint8 {
			return `\x` + hex.EncodeToString(r.Bytes()), nil
		}
		return plainList(r)
	}
	return v, nil
}

// plainList takes lists of bytes apart, which JSON has another form for.
func plainList(list reflect.Value) (any, error) {
	if of := list.Type().Elem(); of.Kind() != reflect.Slice || of.Elem().Kind() != reflect.Uint8 {
		return list.Interface(), nil
	}
	out := make([]any, list.Len())
	for i := range out {
		var err error
		if out[i], err = plain(list.Index(i).Interface()); err != nil {
			return nil, err
		}
	}
	return out, nil
}
