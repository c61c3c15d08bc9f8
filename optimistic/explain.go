package optimistic

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// unfit are the codes for a value that a column cannot have: out of range, not in the form of its type, or of a type that is not
// compared with it. Source: https://www.postgresql.org/docs/current/errcodes-appendix.html.
var unfit = []string{"22003", "22007", "22008", "22021", "22023", "22P02", "22P03", "42804", "42883"}

// unencoded are the texts of client libraries, pgx and database/sql, for an argument that they could not send at all.
var unencoded = []string{"failed to encode args[", "converting argument $"}

// explain says of an error of a statement of ours that one of its arguments made it.
func explain(err error) error {
	var state interface{ SQLState() string }
	isUnfit := errors.As(err, &state) && slices.Contains(unfit, state.SQLState())
	unsent := func(text string) bool { return strings.Contains(err.Error(), text) }
	if err == nil || !isUnfit && (state != nil || !slices.ContainsFunc(unencoded, unsent)) {
		return err
	}
	return fmt.Errorf("%w: the key, the version or a value is none that its column can have: %w", ErrInvalid, err)
}
