package idem

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sort"
)

// A Field is one of the named values that make an operation what it is.
type Field struct {
	Name  string
	Value any
}

// Derive makes a key from the fields that identify an operation, for callers that have no key of their own: who acts,
// and those parts of the payload in which two different operations differ. The order of the fields does not matter; their
// names, values and JSON types do.
//
// Leave out what changes from one attempt to the next: the time of the request, a trace ID, an attempt number. A key
// with such a field is a new key for each attempt, and protects nothing. Put in what tells two wanted operations apart,
// such as an order number: without it, the second payment of the same amount to the same person is taken for a repetition
// of the first.
//
// It returns a [*KeyError] if there is no field, a name is empty or given twice, or a value has no JSON form.
func Derive(scope, operation string, fields ...Field) (Key, error) {
	if len(fields) == 0 {
		return Key{}, &KeyError{Part: "Value", Reason: "cannot be derived from no fields"}
	}
	sorted := append([]Field(nil), fields...)
	sort.Slice(sorted, func(i, j int) bool { return sorted[i].Name < sorted[j].Name })
	pairs := make([][2]json.RawMessage, len(sorted))
	for i, f := range sorted {
		switch {
		case f.Name == "":
			return Key{}, &KeyError{Part: "Value", Reason: "cannot be derived from a field without a name"}
		case i > 0 && f.Name == sorted[i-1].Name:
			return Key{}, &KeyError{Part: "Value", Reason: fmt.Sprintf("cannot be derived from two fields named %q", f.Name)}
		}
		value, err := marshalExact(f.Value)
		if err != nil {
			return Key{}, &KeyError{Part: "Value", Reason: fmt.Sprintf("cannot be derived from the field %q: %v", f.Name, err)}
		}
		name, err := json.Marshal([]byte(f.Name)) // bytes, so that names that differ in invalid UTF-8 differ
		if err != nil {
			return Key{}, err
		}
		pairs[i] = [2]json.RawMessage{name, value}
	}
	text, err := json.Marshal(pairs)
	if err != nil {
		return Key{}, err
	}
	sum := sha256.Sum256(text)
	key := Key{Scope: scope, Name: operation, Value: hex.EncodeToString(sum[:])}
	return key, key.validate()
}

// marshalExact is json.Marshal that refuses text which is not valid UTF-8: json.Marshal replaces what it cannot encode,
// and two different values would become one.
func marshalExact(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		if bytes.HasPrefix(text[i:], []byte(`\ufffd`)) {
			return nil, errors.New("the text is not valid UTF-8: encode it, for example in hex")
		}
		i++ // an escape takes two bytes or more; the second never begins another
	}
	return text, nil
}
