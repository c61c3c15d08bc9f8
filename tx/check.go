package tx

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// A Table is what a package expects of one of its tables.
type Table struct {
	Schema  string
	Name    string
	Columns []string
	// Integers are those of Columns that must be of an integer type, each with the largest value that it must hold.
	Integers map[string]int64
	// Key is the one of Columns that must identify a row: it has a unique index of its own, without a predicate. Default:
	// none is looked for.
	Key string
	// Privileges are those of select, insert, update and delete that the code needs; to lock rows takes update. One on some of
	// the columns is enough, but for delete. Default: all four.
	Privileges []string
}

var allPrivileges = []string{"select", "insert", "update", "delete"}

const checkPrivileges = `select has_any_column_privilege(t, 'select'), has_any_column_privilege(t, 'insert'),
	has_any_column_privilege(t, 'update'), has_table_privilege(t, 'delete') from to_regclass($1) t`

// CheckTables reports, for the start of a service, whether the database can be reached and written to, and whether
// tables are there with the columns that the code expects and the privileges that it needs. The patterns' own Check
// methods call it.
//
// It returns an error that matches [ErrNotSent], [ErrReadOnly], [ErrNotMigrated], [ErrColumn] or [ErrPrivilege], or
// another of [DB.Do].
func CheckTables[T any](ctx context.Context, db *DB[T], tables ...Table) error {
	return db.Do(ctx, func(ctx context.Context, t T) error {
		conn := db.Tx(t)
		if err := checkWritable(ctx, conn); err != nil {
			return err
		}
		for _, table := range tables {
			if err := table.check(ctx, conn); err != nil {
				return err
			}
		}
		return nil
	})
}

func checkWritable(ctx context.Context, conn Conn) error {
	if conn.Dialect() != PostgreSQL {
		return nil // there, a statement on the table tells
	}
	var readOnly string
	if err := conn.QueryRow(ctx, "select current_setting('transaction_read_only')").Scan(&readOnly); err != nil {
		return err
	}
	if readOnly == "on" {
		return ErrReadOnly
	}
	return nil
}

func (want Table) check(ctx context.Context, conn Conn) error {
	have, err := want.look(ctx, conn)
	if err != nil {
		return err
	}
	name := conn.Dialect().Table(want.Schema, want.Name)
	if len(have) == 0 {
		return fmt.Errorf("%w: there is no table %s", ErrNotMigrated, name)
	}
	for _, column := range want.Columns {
		if _, ok := have[column]; !ok {
			return fmt.Errorf("%w: table %s has no column %s", ErrNotMigrated, name, column)
		}
	}
	if err := want.checkPrivileges(ctx, conn, name); err != nil {
		return err
	}
	if conn.Dialect() == SQLite {
		// The write lock is to be had on a read-only database too. Only a statement that could write tells.
		if _, err := conn.Exec(ctx, "delete from "+name+" where false"); err != nil {
			return err
		}
	}
	return want.checkColumns(ctx, conn, name, have)
}

// look returns the types of the columns of the table, none if it is missing.
func (want Table) look(ctx context.Context, conn Conn) (types map[string]string, err error) {
	query, arg := "select name, type from pragma_table_info($1)", want.Name
	if conn.Dialect() == PostgreSQL {
		query, arg = typesPostgres, conn.Dialect().Table(want.Schema, want.Name)
	}
	rows, err := conn.Query(ctx, query, arg)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	types = map[string]string{}
	for rows.Next() {
		var column, kind string
		if err := rows.Scan(&column, &kind); err != nil {
			return nil, err
		}
		types[column] = kind
	}
	return types, rows.Err()
}

// checkPrivileges names what the user may not do to the table.
func (want Table) checkPrivileges(ctx context.Context, conn Conn, name string) error {
	if conn.Dialect() != PostgreSQL {
		return nil
	}
	have := make([]bool, len(allPrivileges))
	if err := conn.QueryRow(ctx, checkPrivileges, name).Scan(&have[0], &have[1], &have[2], &have[3]); err != nil {
		return err
	}
	needs, missing := want.Privileges, []string(nil)
	if needs == nil {
		needs = allPrivileges
	}
	for i, privilege := range allPrivileges {
		if !have[i] && slices.Contains(needs, privilege) {
			missing = append(missing, privilege)
		}
	}
	if missing == nil {
		return nil
	}
	return fmt.Errorf("%w: grant %s on table %s", ErrPrivilege, strings.Join(missing, ", "), name)
}
