package tx

import (
	"fmt"
	"strings"

	holdfast "github.com/holdfast-go/holdfast"
)

// A Dialect describes an SQL engine as data. The values are [PostgreSQL] and [SQLite]; compare pointers.
type Dialect struct {
	// Name is the name of the engine and of its folder of migrations.
	Name string
	// Now is the expression of the server's clock, the only clock that decides about leases, expiry and schedules: a
	// timestamptz on PostgreSQL, where it moves during a transaction, and milliseconds since 1970, UTC, on SQLite.
	Now string
	// Capabilities are what the engine can do. The conformance suites assert them.
	Capabilities Capabilities

	placeholder byte
}

// Capabilities are the powers in which engines differ. A pattern that needs one that is missing says so; nothing
// pretends.
type Capabilities struct {
	// AdvisoryLocks: transaction-level locks on a number. With them a duplicate is refused at once.
	AdvisoryLocks bool
	// RowLocks: SELECT … FOR UPDATE, with NOWAIT and SKIP LOCKED.
	RowLocks bool
	// ConcurrentWriters: transactions that write different rows run side by side. Without it, a second writer waits
	// for the first as long as the busy timeout allows.
	ConcurrentWriters bool
	// AbortsOnError: an error in a statement ends the transaction, so that nothing but a rollback is possible.
	AbortsOnError bool
	// ExclusionConstraints: constraints that forbid overlaps.
	ExclusionConstraints bool
	// IsolationLevels: READ COMMITTED, REPEATABLE READ and SERIALIZABLE differ. Without it, every transaction is
	// serializable.
	IsolationLevels bool
	// Schemas: tables can be put into named schemas.
	Schemas bool
	// Notifications: LISTEN and NOTIFY.
	Notifications bool
}

// PostgreSQL is PostgreSQL 13 and later.
var PostgreSQL = &Dialect{
	Name:        "postgres",
	Now:         "clock_timestamp()",
	placeholder: '$',
	Capabilities: Capabilities{
		AdvisoryLocks:        true,
		RowLocks:             true,
		ConcurrentWriters:    true,
		AbortsOnError:        true,
		ExclusionConstraints: true,
		IsolationLevels:      true,
		Schemas:              true,
		Notifications:        true,
	},
}

// SQLite is SQLite 3.35 and later, the first with RETURNING. One writer at a time.
var SQLite = &Dialect{
	Name:        "sqlite",
	Now:         "cast((julianday('now') - 2440587.5) * 86400000 as integer)",
	placeholder: '?',
}

// Quote returns name as a quoted identifier, whatever it contains.
func (d *Dialect) Quote(name string) string {
	return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
}

// Table returns the quoted name of a table, in schema if that is not empty.
func (d *Dialect) Table(schema, name string) string {
	if schema == "" {
		return d.Quote(name)
	}
	return d.Quote(schema) + "." + d.Quote(name)
}

// Rebind rewrites the placeholders $1, $2, … of query into the dialect's own. Quoted strings and identifiers are left
// alone.
func (d *Dialect) Rebind(query string) string {
	if d.placeholder == '$' {
		return query
	}
	var out strings.Builder
	out.Grow(len(query))
	var quote byte
	for i := 0; i < len(query); i++ {
		c := query[i]
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case c == '$' && i+1 < len(query) && query[i+1] >= '1' && query[i+1] <= '9':
			c = d.placeholder
		}
		out.WriteByte(c)
	}
	return out.String()
}

// CheckName reports whether name can be a table or schema name on every dialect, at most max bytes long: a
// [*NameError] says what is wrong. Any character but NUL is allowed, since names are always quoted.
func CheckName(name string, max int) error {
	switch {
	case name == "":
		return &NameError{Name: name, Reason: "is empty"}
	case len(name) > max:
		return &NameError{Name: name[:max] + "…", Reason: fmt.Sprintf("has %d bytes, at most %d are allowed", len(name), max)}
	case strings.ContainsRune(name, 0):
		return &NameError{Name: name, Reason: "contains a NUL byte"}
	case strings.ToValidUTF8(name, "") != name:
		return &NameError{Name: name, Reason: "is not valid UTF-8"}
	}
	return nil
}

// A NameError is the error of a table or schema name that cannot be used.
type NameError struct {
	Name   string
	Reason string
}

// Outcome returns NotApplied.
func (e *NameError) Outcome() holdfast.Outcome { return holdfast.NotApplied }

func (e *NameError) Error() string {
	return fmt.Sprintf("tx: the name %q %s", e.Name, e.Reason)
}
