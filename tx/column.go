package tx

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	holdfast "github.com/holdfast-go/holdfast"
)

// A ColumnError is the error of a column of a table that the code cannot work with as it is. It matches [ErrColumn].
type ColumnError struct {
	// Table is the quoted name of the table.
	Table  string
	Column string
	// Type is the type that the column has, and Largest the value that it does not hold because of that, where the
	// type is the reason.
	Type    string
	Largest int64
	// Reason says what is wrong, and how to mend it.
	Reason string
}

func (e *ColumnError) Error() string {
	return fmt.Sprintf("%v: %s of table %s %s", ErrColumn, PostgreSQL.Quote(e.Column), e.Table, e.Reason)
}

// Is matches ErrColumn.
func (e *ColumnError) Is(target error) bool { return target == ErrColumn }

// Outcome returns NotApplied.
func (e *ColumnError) Outcome() holdfast.Outcome { return holdfast.NotApplied }

// A domain has the type that it is made of, perhaps through other domains.
const typesPostgres = `with recursive kind as (
	select a.attname, t.oid, t.typbasetype from pg_attribute a join pg_type t on t.oid = a.atttypid
	where a.attrelid = to_regclass($1) and a.attnum > 0 and not a.attisdropped
	union all
	select k.attname, t.oid, t.typbasetype from kind k join pg_type t on t.oid = k.typbasetype
)
select attname::text, format_type(oid, null) from kind where typbasetype = 0`

// A view has no indexes of its own, so that nothing is known.
const keyPostgres = `select (select relkind not in ('r', 'p') from pg_class where oid = to_regclass($1)) or exists (
	select from pg_index i join pg_attribute a on a.attrelid = i.indrelid and a.attnum = i.indkey[0]
	where i.indrelid = to_regclass($1) and a.attname = $2
		and i.indisunique and i.indisvalid and i.indnkeyatts = 1 and i.indpred is null)`

// The key of a table without rowid has an index as others do; an integer primary key is the rowid and has none.
const keySQLite = `select exists (select 1 from pragma_index_list($1) l where l."unique" and not l.partial
		and (select count(*) from pragma_index_info(l.name)) = 1 and (select name from pragma_index_info(l.name)) = $2)
	or exists (select 1 from pragma_table_info($1) where pk and name = $2) and (select sum(pk > 0) from pragma_table_info($1)) = 1`

func (want Table) checkColumns(ctx context.Context, conn Conn, table string, types map[string]string) error {
	for _, column := range slices.Sorted(maps.Keys(want.Integers)) {
		kind, largest := types[column], want.Integers[column]
		if holds(conn.Dialect(), kind) < max(1, largest) {
			return &ColumnError{
				Table: table, Column: column, Type: kind, Largest: max(1, largest),
				Reason: fmt.Sprintf("is of type %q, which holds no integers up to %d: change it, or name another column", kind, max(1, largest)),
			}
		}
	}
	if want.Key == "" {
		return nil
	}
	query, arg := keyPostgres, table
	if conn.Dialect() == SQLite {
		query, arg = keySQLite, want.Name
	}
	var unique bool
	if err := conn.QueryRow(ctx, query, arg, want.Key).Scan(&unique); err != nil {
		return err
	}
	if !unique {
		return &ColumnError{
			Table: table, Column: want.Key, Type: types[want.Key],
			Reason: "does not identify a row: give it a unique index of its own, or name another column",
		}
	}
	return nil
}

// holds returns the largest value of an integer type, and 0 for another type. On SQLite any type whose name has "int" in it
// is the one integer type: https://www.sqlite.org/datatype3.html.
func holds(d *Dialect, kind string) int64 {
	switch {
	case d == SQLite && strings.Contains(strings.ToLower(kind), "int"), kind == "bigint":
		return math.MaxInt64
	case kind == "integer":
		return math.MaxInt32
	case kind == "smallint":
		return math.MaxInt16
	}
	return 0
}
