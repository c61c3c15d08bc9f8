package idem

import (
	"encoding/json"
	"fmt"
)

// A Result is the answer of an operation: of this call, or of the one that did the work.
type Result[R any] struct {
	// Value is what the closure returned.
	Value R
	// Body is the stored form of Value, the same bytes on every call: the value itself if R is []byte, otherwise JSON.
	// Write it out where an answer must be equal byte for byte.
	Body []byte
	// Replayed tells that an earlier call did the work.
	Replayed bool
}

// Codecs of a stored body.
const (
	codecNone  = 0 // done, but not retained
	codecBytes = 1
	codecJSON  = 2
)

// encode returns the stored form of a result.
func encode[R any](value R) (codec int, body []byte, err error) {
	if raw, ok := any(&value).(*[]byte); ok {
		return codecBytes, *raw, nil
	}
	body, err = json.Marshal(value)
	if err != nil {
		return 0, nil, fmt.Errorf("%w: encode %T: %w", ErrResult, value, err)
	}
	return codecJSON, body, nil
}

// decode is the reverse of encode. Bytes are the caller's to keep.
func decode[R any](codec int, body []byte) (value R, err error) {
	_, raw := any(&value).(*[]byte)
	switch {
	case codec == codecNone:
		return value, ErrNotRetained
	case raw:
		return any(body).(R), nil
	case codec != codecJSON:
		return value, fmt.Errorf("%w: stored bytes, asked for as %T", ErrResult, value)
	}
	if err := json.Unmarshal(body, &value); err != nil {
		return value, fmt.Errorf("%w: decode %T: %w", ErrResult, value, err)
	}
	return value, nil
}
