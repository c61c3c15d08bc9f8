package txtest

import (
	"context"
	"errors"
	"math"
	"strings"

	"github.com/holdfast-go/holdfast/tx"
)

func columnRules[T any]() []rule[T] {
	return []rule[T]{
		{name: "check integers", rule: "CheckTables names a column that is not of an integer type, or of one that is too small.", check: checkIntegers[T]},
		{name: "check key", rule: "CheckTables names a key that is not unique by itself.", check: checkKey[T]},
		{name: "check privileges", rule: "CheckTables names the privileges that the code needs and the user has not.", check: checkPrivileges[T]},
	}
}

// checkTable fails the rule unless CheckTables finds fault with the column, or with none if that is empty.
func (f *fixture[T]) checkTable(table tx.Table, column string) {
	f.Helper()
	err := tx.CheckTables(f.ctx, f.DB, table)
	var wrong *tx.ColumnError
	switch {
	case column == "" && err != nil:
		f.Errorf("%+v: got %v", table, err)
	case column == "":
	case !errors.As(err, &wrong) || !errors.Is(err, tx.ErrColumn) || wrong.Column != column || !strings.Contains(err.Error(), table.Name):
		f.Errorf("%+v: got %v, want one of %s", table, err, column)
	}
}

func (f *fixture[T]) createAll(queries ...string) {
	f.Helper()
	for _, query := range queries {
		if _, err := f.DB.Conn().Exec(f.ctx, query); err != nil {
			f.Fatalf("%s: %v", query, err)
		}
	}
}

func checkIntegers[T any](f *fixture[T]) {
	postgres := f.DB.Dialect() == tx.PostgreSQL
	f.createAll(`create table kinds ("a'b" smallint, i integer, b bigint, t text, r real, n numeric(20), d date)`)
	if postgres {
		f.createAll(`create domain amount as integer check (value >= 0)`, `create domain seats as amount`,
			`create domain label as text`, `alter table kinds add s seats, add l label`)
	}
	for column, largest := range map[string]int64{
		"a'b": math.MaxInt16, "i": math.MaxInt32, "b": math.MaxInt64, "s": math.MaxInt32, "t": 0, "r": 0, "n": 0, "d": 0, "l": 0,
	} {
		if !postgres && (column == "s" || column == "l") {
			continue
		}
		for _, must := range []int64{0, 1, math.MaxInt16, math.MaxInt32, math.MaxInt64} {
			wrong := ""
			if largest == 0 || postgres && must > largest {
				wrong = column
			}
			f.checkTable(tx.Table{Name: "kinds", Columns: []string{column}, Integers: map[string]int64{column: must}}, wrong)
		}
	}
}

func checkKey[T any](f *fixture[T]) {
	f.createAll(`create table keyed (id integer primary key, name varchar(50) unique, a integer, b integer, part integer, plain integer, unique (a, b))`,
		`create unique index keyed_part on keyed (part) where part > 0`, `create index keyed_plain on keyed (plain)`,
		`create table pair (a integer, b integer, primary key (a, b))`, `create table word (w varchar(50) primary key)`)
	if f.DB.Dialect() == tx.PostgreSQL {
		f.createAll(`alter table keyed add e integer`, `create unique index keyed_e on keyed ((e + 1))`,
			`alter table keyed add c integer`, `create unique index keyed_c on keyed (c) include (plain)`)
		f.createAll(`create view seen as select * from keyed`)
		f.checkTable(tx.Table{Name: "seen", Columns: []string{"plain"}, Key: "plain"}, "")
		f.checkTable(tx.Table{Name: "keyed", Columns: []string{"e"}, Key: "e"}, "e")
		f.checkTable(tx.Table{Name: "keyed", Columns: []string{"c"}, Key: "c"}, "")
	}
	for _, c := range []struct{ table, key, wrong string }{
		{"keyed", "id", ""},
		{"keyed", "name", ""},
		{"word", "w", ""},
		{"keyed", "a", "a"},
		{"keyed", "b", "b"},
		{"keyed", "part", "part"},
		{"keyed", "plain", "plain"},
		{"pair", "a", "a"},
		{"pair", "b", "b"},
	} {
		f.checkTable(tx.Table{Name: c.table, Columns: []string{c.key}, Key: c.key}, c.wrong)
	}
}

func checkPrivileges[T any](f *fixture[T]) {
	if f.DB.Dialect() != tx.PostgreSQL {
		f.Log("there are no privileges")
		return
	}
	f.createAll("create table secret (id integer, n integer)")
	all := []string{"select", "insert", "update", "delete"}
	for _, c := range []struct {
		grant   string
		needs   []string
		missing string
	}{
		{"select, insert, update, delete", nil, ""},
		{"select, insert, update, delete", all, ""},
		{"insert, delete", nil, "select, update"},
		{"select", all, "insert, update, delete"},
		{"select, update", []string{"select", "update"}, ""},
		{"select, update (n)", []string{"select", "update"}, ""},
		{"select", []string{"update", "select"}, "update"},
		{"select, insert, update", []string{"delete"}, "delete"},
		{"references", []string{"select"}, "select"},
	} {
		err := f.DB.Do(f.ctx, func(ctx context.Context, t T) error {
			conn := f.DB.Tx(t)
			var schema string
			if err := conn.QueryRow(ctx, "select current_schema()").Scan(&schema); err != nil {
				return err
			}
			role := f.DB.Dialect().Quote(schema + " user") // it goes with the transaction
			for _, query := range []string{
				"create role " + role, "grant usage on schema " + f.DB.Dialect().Quote(schema) + " to " + role,
				"grant " + c.grant + " on secret to " + role, "set local role " + role,
			} {
				if _, err := conn.Exec(ctx, query); err != nil {
					return err
				}
			}
			err := tx.CheckTables(ctx, f.DB, tx.Table{Name: "secret", Columns: []string{"id"}, Privileges: c.needs})
			wrong := err != nil
			if c.missing != "" {
				wrong = !errors.Is(err, tx.ErrPrivilege) || !strings.Contains(err.Error(), "grant "+c.missing+` on table "secret"`)
			}
			if wrong {
				f.Errorf("%+v: got %v", c, err)
			}
			return errUndo
		})
		if !errors.Is(err, errUndo) {
			f.Fatal(err)
		}
	}
}

var errUndo = errors.New("txtest: nothing of this is to stay")
