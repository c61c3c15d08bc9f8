package pessimistic_test

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/pessimistic"
)

func TestMissingKeysAreReadable(t *testing.T) {
	t.Parallel()
	for want, keys := range map[string][]any{
		`table "account" has no row with the key 99`:            {int64(99)},
		`no row with the key a, 7`:                              {"a", 7},
		`no row with the key 1, 2, 3, 4, 5 and 2 more`:          {1, 2, 3, 4, 5, 6, 7},
		"no row with the key " + strings.Repeat("k", 64) + "…":  {strings.Repeat("k", 1<<20)},
		"no row with the key k" + strings.Repeat("é", 31) + "…": {"k" + strings.Repeat("é", 100)},
	} {
		err := &pessimistic.MissingError{Table: "account", Keys: keys}
		if got := err.Error(); !strings.HasSuffix(got, want) {
			t.Errorf("got %q, want %q at its end", got, want)
		}
	}
}
