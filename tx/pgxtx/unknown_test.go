package pgxtx

import (
	"errors"
	"io"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// What an error proves of a COMMIT that was sent. An error of the server proves that it did not run, unless the server is
// going down: its replies leave together, and a pooler answers for one that is gone, at any place.
func TestWhatAnErrorProvesOfACommit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"deferred constraint":      {&pgconn.PgError{Severity: "ERROR", Code: "23505"}, false},
		"serialization failure":    {&pgconn.PgError{Severity: "ERROR", Code: "40001"}, false},
		"disk full":                {&pgconn.PgError{Severity: "ERROR", Code: "53100"}, false},
		"administrator":            {&pgconn.PgError{Severity: "FATAL", Code: "57P01"}, true},
		"cannot sync the log":      {&pgconn.PgError{Severity: "PANIC", Code: "58030"}, true},
		"system error":             {&pgconn.PgError{Severity: "FATAL", Code: "58000"}, true},
		"pooler lost its server":   {&pgconn.PgError{Severity: "FATAL", Code: "08P01"}, true},
		"translated":               {&pgconn.PgError{Severity: "SCHWERWIEGEND", SeverityUnlocalized: "FATAL", Code: "XX000"}, true},
		"connection broke":         {io.ErrUnexpectedEOF, true},
		"never sent":               {unsentError{errors.New("closed")}, false},
		"never sent, bad argument": {unsentError{errEncode}, false},
	} {
		if got := unknown(c.err); got != c.want {
			t.Errorf("%s: unknown %v, want %v", name, got, c.want)
		}
	}
}
