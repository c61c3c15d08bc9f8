package counter

import (
	"errors"
	"slices"
	"strconv"
	"strings"
)

// ofKey are the codes of texts that a type does not take: invalid_text_representation, invalid_binary_representation,
// invalid_datetime_format, datetime_field_overflow, invalid_parameter_value, character_not_in_repertoire. Source:
// https://www.postgresql.org/docs/current/errcodes-appendix.html.
var ofKey = []string{"22P02", "22P03", "22007", "22008", "22023", "22021"}

// explain names the argument that made PostgreSQL refuse a statement on a column of the caller's. Keys are given as text, so
// it is the database that finds out.
func (c *Counters[T]) explain(err error, keys ...string) error {
	var known *InputError
	if err == nil || c.place.own || errors.Is(err, ErrOutcomeUnknown) || errors.As(err, &known) {
		return err
	}
	wrong := &InputError{Err: err}
	key := mentioned(err, keys)
	switch state := sqlState(err); {
	case state == "22003" && key == "" && !strings.Contains(err.Error(), "numeric"): // out of range: the sum, an integer
		wrong.Name = "Column.Max"
		wrong.Reason = "exceeds what " + c.place.scope + " holds: give math.MaxInt32 for integer, math.MaxInt16 for smallint"
	case state == "22003", slices.Contains(ofKey, state), strings.HasPrefix(state, "22") && key != "":
		wrong.Name = strings.TrimSpace("key " + key)
		wrong.Reason = "is no value of column " + c.place.key + ": give one in the text form of its type"
	case state == "42883": // undefined_function
		wrong.Name, wrong.Reason = "column "+c.place.key, "is of a type that cannot be compared: give Column.Key one that identifies a row"
	case state == "42804": // datatype_mismatch
		wrong.Name, wrong.Reason = "column "+c.place.scope, "does not count: give Column.Column one of type smallint, integer or bigint"
	default:
		return err
	}
	return wrong
}

// mentioned returns, quoted, the key that an error is about, or "". The server quotes it, as its language does.
func mentioned(err error, keys []string) string {
	text := err.Error()
	for _, key := range keys {
		for _, quote := range []string{`"`, "»", "„", "«", "« ", "“"} {
			if strings.Contains(text, quote+key) {
				return strconv.Quote(key)
			}
		}
	}
	return ""
}
