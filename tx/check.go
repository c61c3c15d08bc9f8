package tx

import (
	"context"
	"fmt"
	"slices"
)

// A Table is what a package expects of one of its tables.
type Table struct {
	Schema  string
	Name    string
	Columns []string
}

const checkPrivileges = `select has_table_privilege(t, 'select') and has_table_privilege(t, 'insert')
	and has_table_privilege(t, 'update') and has_table_privilege(t, 'delete') from to_regclass($1) t`

// CheckTables reports, for the start of a service, whether the database can be reached and written to, and whether
// tables are there with the columns that the code expects and the privileges that it needs. The patterns' own Check
// methods call it.
//
// It returns an error that matches [ErrNotSent], [ErrReadOnly], [ErrNotMigrated] or [ErrPrivilege], or another of
// [DB.Do].
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
	have, allowed, err := want.look(ctx, conn)
	if err != nil {
		return err
	}
	name := conn.Dialect().Table(want.Schema, want.Name)
	if len(have) == 0 {
		return fmt.Errorf("%w: there is no table %s", ErrNotMigrated, name)
	}
	for _, column := range want.Columns {
		if !slices.Contains(have, column) {
			return fmt.Errorf("%w: table %s has no column %s", ErrNotMigrated, name, column)
		}
	}
	if !allowed {
		return fmt.Errorf("%w: on table %s", ErrPrivilege, name)
	}
	if conn.Dialect() == SQLite {
		// The write lock is to be had on a read-only database too. Only a statement that could write tells.
		_, err = conn.Exec(ctx, "delete from "+name+" where false")
	}
	return err
}

// look returns the columns of the table, none if it is missing, and whether it can be read and written.
func (want Table) look(ctx context.Context, conn Conn) (columns []string, allowed bool, err error) {
	query, arg := "select name from pragma_table_info($1)", want.Name
	if conn.Dialect() == PostgreSQL {
		query, arg = "select attname::text from pg_attribute where attrelid = to_regclass($1) and attnum > 0 and not attisdropped",
			conn.Dialect().Table(want.Schema, want.Name)
	}
	rows, err := conn.Query(ctx, query, arg)
	if err != nil {
		return nil, false, err
	}
	defer rows.Close()
	for rows.Next() {
		var column string
		if err := rows.Scan(&column); err != nil {
			return nil, false, err
		}
		columns = append(columns, column)
	}
	if err := rows.Err(); err != nil || len(columns) == 0 || conn.Dialect() != PostgreSQL {
		return columns, true, err
	}
	rows.Close()
	err = conn.QueryRow(ctx, checkPrivileges, arg).Scan(&allowed)
	return columns, allowed, err
}
