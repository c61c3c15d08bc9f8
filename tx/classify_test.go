package tx_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"

	"github.com/holdfast-go/holdfast/tx"
)

// A serverError is what pgx and lib/pq have in common.
type serverError struct{ Code, Constraint string }

func (e *serverError) Error() string    { return "server: " + e.Code }
func (e *serverError) SQLState() string { return e.Code }

// A sendError is what pgx tells of a connection.
type sendError struct {
	text string
	safe bool
}

func (e sendError) Error() string     { return e.text }
func (e sendError) SafeToRetry() bool { return e.safe }

// codeError has a code, as SQLite's errors have, but is of a package of another name.
type codeError struct{ ExtendedCode int }

func (codeError) Error() string { return "code" }
func (codeError) Code() int     { return 2067 }

func TestClassify(t *testing.T) {
	t.Parallel()
	state := func(code string) error { return &serverError{Code: code} }
	for _, c := range []struct {
		err  error
		want tx.Class
	}{
		{nil, tx.Permanent},
		{errors.New("any"), tx.Permanent},
		{context.Canceled, tx.Permanent},
		{context.DeadlineExceeded, tx.Permanent},
		{fmt.Errorf("query: %w", context.DeadlineExceeded), tx.Permanent},
		{codeError{2067}, tx.Permanent},
		{state(""), tx.Permanent},
		{state("42601"), tx.Permanent},
		{state("22012"), tx.Permanent},
		{state("40001"), tx.Retryable},
		{state("40P01"), tx.Retryable},
		{state("23505"), tx.Unique},
		{state("23P01"), tx.Exclusion},
		{state("23503"), tx.ForeignKey},
		{state("23514"), tx.Check},
		{state("25006"), tx.ReadOnly},
		{state("42P01"), tx.Undefined},
		{state("42703"), tx.Undefined},
		{state("3F000"), tx.Undefined},
		{state("53300"), tx.NotSent},
		{state("57P03"), tx.NotSent},
		{state("57P01"), tx.Lost},
		{state("57P02"), tx.Lost},
		{state("40003"), tx.Lost},
		{state("08006"), tx.Lost},
		{fmt.Errorf("saving: %w", state("40001")), tx.Retryable},
		{errors.Join(errors.New("other"), state("40001")), tx.Retryable},
		{fmt.Errorf("saving: %v", state("40001")), tx.Permanent}, //nolint:errorlint // hidden
		{io.EOF, tx.Lost},
		{io.ErrUnexpectedEOF, tx.Lost},
		{net.ErrClosed, tx.Lost},
		{driver.ErrBadConn, tx.Lost},
		{&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, tx.Lost},
		{&net.OpError{Op: "dial", Err: errors.New("refused")}, tx.NotSent},
		{sendError{"write failed", true}, tx.NotSent},
		{sendError{"conn closed", true}, tx.Lost},
		{fmt.Errorf("%w: busy", tx.ErrNotSent), tx.NotSent},
		{&tx.AbortError{Err: errors.New("any"), Class: tx.Unique}, tx.Unique},
		{&tx.AbortError{Err: state("40001")}, tx.Retryable},
	} {
		if got := tx.Classify(c.err); got != c.want {
			t.Errorf("the class of %v (%T) is %v, want %v", c.err, c.err, got, c.want)
		}
	}
}

func TestViolations(t *testing.T) {
	t.Parallel()
	probes := map[string]func(error) (string, bool){
		"23505": tx.UniqueViolation, "23P01": tx.ExclusionViolation, "23503": tx.ForeignKeyViolation, "23514": tx.CheckViolation,
	}
	for state := range probes {
		err := fmt.Errorf("saving: %w", &serverError{state, "the_constraint"})
		for of, probe := range probes {
			name, ok := probe(err)
			if ok != (of == state) || ok && name != "the_constraint" {
				t.Errorf("the probe of %s says %q, %v of %s", of, name, ok, state)
			}
		}
	}
	for _, probe := range probes {
		if name, ok := probe(nil); ok || name != "" {
			t.Errorf("a probe says %q, %v of nil", name, ok)
		}
	}
}

func TestClassNames(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for c := tx.Permanent; c <= tx.Lost; c++ {
		if name := c.String(); name == "" || name == "invalid" || seen[name] {
			t.Errorf("class %d is called %q", c, name)
		}
		seen[c.String()] = true
	}
	if got := tx.Class(99).String(); got != "invalid" {
		t.Errorf("a class that is none is called %q", got)
	}
}
