package optimistic

import (
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"strconv"
)

// A Version is the version of a row as somebody read it. Its zero value is unset, which is not the same as version 0: a
// write with an unset version is refused with [ErrNoVersion]. It comes from [At], from a column, from JSON, or from an
// entity tag. Versions can be compared with ==.
type Version struct {
	n    int64
	kind kind
}

type kind uint8

const (
	unset kind = iota
	exact
	whatever
)

// At returns the version n. Any number is valid, 0 too.
func At(n int64) Version { return Version{n: n, kind: exact} }

// Any stands for whatever version the row has: a write with it overwrites what others wrote. It must be asked for by name,
// so that nobody gets it by forgetting something.
func Any() Version { return Version{kind: whatever} }

// IsSet reports whether v is the version of a row, or Any.
func (v Version) IsSet() bool { return v.kind != unset }

// Int64 returns the number, and whether there is one: neither an unset version nor Any has one.
func (v Version) Int64() (n int64, ok bool) { return v.n, v.kind == exact }

// String returns the number, "unset" or "any".
func (v Version) String() string {
	switch v.kind {
	case exact:
		return strconv.FormatInt(v.n, 10)
	case whatever:
		return "any"
	default:
		return "unset"
	}
}

// ETag returns the strong entity tag of a version, such as "7" with its quotes, and "" for one without a number.
func (v Version) ETag() string {
	if v.kind != exact {
		return ""
	}
	return `"` + v.String() + `"`
}

// Scan reads a column that holds an integer. NULL leaves v unset.
func (v *Version) Scan(src any) error {
	switch n := src.(type) {
	case nil:
		*v = Version{}
	case int64:
		*v = At(n)
	default:
		return fmt.Errorf("optimistic: a version is an integer, not a %T: timestamps are not precise enough to tell two writes apart", src)
	}
	return nil
}

// Value makes v an argument of a statement. A version without a number is refused with [ErrNoVersion] before anything is
// sent.
func (v Version) Value() (driver.Value, error) {
	if v.kind != exact {
		return nil, ErrNoVersion
	}
	return v.n, nil
}

// MarshalJSON writes a number, and null for a version without one.
func (v Version) MarshalJSON() ([]byte, error) {
	if v.kind != exact {
		return []byte("null"), nil
	}
	return strconv.AppendInt(nil, v.n, 10), nil
}

// UnmarshalJSON reads an integer, as a number or as a string, since JavaScript rounds beyond 2^53. What is absent or null
// leaves v unset.
func (v *Version) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*v = Version{}
		return nil
	}
	if len(text) > 0 && text[0] == '"' {
		var s string
		if err := json.Unmarshal(text, &s); err != nil {
			return err
		}
		text = []byte(s)
	}
	n, ok := parse(string(text))
	if !ok {
		return fmt.Errorf("%w: the version in the body is not an integer", ErrMalformed)
	}
	*v = At(n)
	return nil
}

// parse reads the one form that a version is written in, so that two texts never mean one version.
func parse(text string) (n int64, ok bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == text
}
