package tx

import (
	"context"
	"strings"
)

// A Conn runs statements. Placeholders are written $1, $2, … on every dialect. It is used by one goroutine at a time.
//
// The interface is small and stable, so that an adapter for another library can be written outside this module.
type Conn interface {
	// Exec runs a statement and returns the number of rows it affected.
	Exec(ctx context.Context, query string, args ...any) (int64, error)
	// Query runs a statement that returns rows. The rows must be closed before the next statement.
	Query(ctx context.Context, query string, args ...any) (Rows, error)
	// QueryRow runs a statement that returns at most one row. Its Scan returns [ErrNoRows] when there is none.
	QueryRow(ctx context.Context, query string, args ...any) Row
	// Dialect tells which SQL the connection speaks.
	Dialect() *Dialect
}

// A Tx is what a pattern sees of a transaction, one that [DB.Do] began or one that the caller began. It can neither
// commit nor roll back: that stays with whoever began the transaction.
type Tx interface {
	Conn
	// Batch runs the statements in order, in one round trip where the client library can pipeline. It stops at the
	// first that fails, returns its error, and leaves the transaction as such an error leaves it: on PostgreSQL
	// aborted.
	Batch(ctx context.Context, stmts ...*Stmt) error
}

// Rows are the rows of a query, read in order.
type Rows interface {
	Next() bool
	Scan(dest ...any) error
	// Err returns the error that ended the iteration early, once Next returned false.
	Err() error
	// Close ends the iteration. It is safe to call twice.
	Close()
}

// A Row is the first row of a query.
type Row interface {
	Scan(dest ...any) error
}

// A Stmt is a statement that travels with others: with BEGIN, in a batch, or with COMMIT.
type Stmt struct {
	// SQL is one statement with placeholders $1, $2, ….
	SQL string
	// Args are its arguments.
	Args []any
	// Dest receives the first row, if there is one. Nil discards the rows.
	Dest []any
	// Each, if it is not nil, makes Dest receive every row, one after the other, and is called after each. Its error is that
	// of the batch, and leaves it to the caller whether the transaction goes on.
	Each func() error
	// MustAffect, if it is not nil, is the error of the batch when the statement affects no row. It is how a fence
	// travels with COMMIT: the commit that follows a fence which matched nothing does not happen. The SQL must be an
	// insert, update or delete. On PostgreSQL it must end in "returning 1", or be one that fails where it would affect no
	// row, on a unique constraint or by a division by zero: that costs the server less.
	MustAffect error

	// Found reports whether a row was scanned into Dest. It is set when the statement ran.
	Found bool
	// Affected is the number of rows that the statement affected or returned. It is set when the statement ran.
	Affected int64
	// Cause is the error of the server in whose place MustAffect was returned, or nil where the statement affected no row.
	Cause error
}

// Returns reports whether s is a fence that returns a row for each that it affects. It is for adapters.
func (s *Stmt) Returns() bool { return s.MustAffect != nil && strings.HasSuffix(s.SQL, "returning 1") }

// Refused returns MustAffect if err, of this very statement, is how a fence fails, and otherwise err. It is for adapters: a
// division by zero elsewhere in the batch says nothing of the fence.
func (s *Stmt) Refused(err error) error {
	if s.MustAffect == nil {
		return err
	}
	if sqlState(err) == "22012" || !s.Returns() && Classify(err) == Unique { // division_by_zero
		s.Cause = err
		return s.MustAffect
	}
	return err
}

// Take gives the rows of s to whoever wants them, the first alone or each of them, and reports whether there was one. It is
// for adapters, which close the rows and ask for their error.
func (s *Stmt) Take(rows interface {
	Next() bool
	Scan(dest ...any) error
},
) (found bool, err error) {
	for len(s.Dest) > 0 && rows.Next() {
		found = true
		if err := rows.Scan(s.Dest...); err != nil {
			return found, err
		}
		if s.Each == nil {
			break
		}
		if err := s.Each(); err != nil {
			return found, err
		}
	}
	return found, nil
}

// Settle stores what an adapter found when it ran the statement, and returns MustAffect where that rule is broken. It is
// for adapters that learn the row count before the transaction ends.
func (s *Stmt) Settle(found bool, affected int64) error {
	s.Found, s.Affected = found, affected
	if s.MustAffect != nil && affected == 0 {
		return s.MustAffect
	}
	return nil
}
