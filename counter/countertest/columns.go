package countertest

import (
	"errors"
	"fmt"
	"math"
	"strings"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/counter"
	"github.com/holdfast-go/holdfast/tx"
)

func columnRules[T any]() []rule[T] {
	return []rule[T]{
		{"ColumnCheck", "Check names a column that cannot count, and a key that is not unique.", (*suite[T]).columnCheck},
		{"ColumnKeys", "A key that its column cannot have is named, or of no row; one that it can have works.", (*suite[T]).columnKeys},
		{"ColumnNames", "A table may have the name of anything that a statement of the package has a name for.", (*suite[T]).columnNames},
		{"ColumnTypes", "A column that cannot count is named at its first use, as is a Max that it does not hold.", (*suite[T]).columnTypes},
	}
}

// kinds makes a table with a column of each type, and a row.
func (s *suite[T]) kinds() (columns map[string]string) {
	s.Helper()
	columns = map[string]string{
		"small": "smallint", "whole": "integer", "big": "bigint", "words": "text", "fraction": "real", "exact": "numeric(20)",
	}
	if s.DB.Dialect() == tx.PostgreSQL {
		for name, kind := range map[string]string{
			"flag": "boolean", "day": "date", "at": "timestamptz", "doc": "json", "docb": "jsonb", "bytes": "bytea", "ids": "uuid",
			"span": "int4range", "list": "integer[]",
		} {
			columns[name] = kind
		}
	}
	text := ""
	for name, kind := range columns {
		text += fmt.Sprintf(", %s %s", name, kind)
	}
	s.exec(`drop table if exists kind`)
	s.exec(`create table kind (id varchar(50) primary key, other varchar(50)` + text + `)`)
	s.exec(`insert into kind (id, other) values ('a', 'a')`)
	return columns
}

func (s *suite[T]) columnCheck() {
	if s.repeated {
		return // a type is one at any level
	}
	postgres := s.DB.Dialect() == tx.PostgreSQL
	for name, kind := range s.kinds() {
		for _, largest := range []int64{0, math.MaxInt32, math.MaxInt16} {
			fits := strings.HasSuffix(kind, "int") || kind == "integer"
			if postgres && (kind == "smallint" && largest != math.MaxInt16 || kind == "integer" && largest == 0) {
				fits = false
			}
			err := counter.NewColumn(s.DB, counter.Column{Table: "kind", Key: "id", Column: name, Max: largest}, nil).Check(s.ctx)
			var wrong *tx.ColumnError
			if fits && err != nil || !fits && (!errors.As(err, &wrong) || wrong.Column != name || !strings.Contains(err.Error(), "Column.Max")) {
				s.Errorf("%s with Max %d: got %v", kind, largest, err)
			}
		}
	}
	err := counter.NewColumn(s.DB, counter.Column{Table: "kind", Key: "other", Column: "big"}, nil).Check(s.ctx)
	var wrong *tx.ColumnError
	if !errors.As(err, &wrong) || wrong.Column != "other" {
		s.Errorf("a key that is not unique: got %v", err)
	}
}

// wantArgument fails the rule unless err names an argument.
func (s *suite[T]) wantArgument(what string, err error, names ...string) {
	s.Helper()
	var wrong *counter.InputError
	if !errors.As(err, &wrong) || !errors.Is(err, counter.ErrInvalid) || wrong.Err == nil || holdfast.OutcomeOf(err) != holdfast.NotApplied {
		s.Errorf("%s: got %v", what, err)
	}
	for _, name := range names {
		if err != nil && !strings.Contains(err.Error(), name) {
			s.Errorf("%s: got %v, which does not name %s", what, err, name)
		}
	}
}

// each calls every verb for a key and hands the errors on.
func (s *suite[T]) each(c *counter.Counters[T], key string, check func(verb string, err error)) {
	s.Helper()
	for name, options := range map[string][]counter.Option{"": nil, " once": {counter.Once("op")}} {
		_, err := c.Add(s.ctx, key, 1, options...)
		check("Add"+name, err)
		_, err = c.Take(s.ctx, key, 1, options...)
		check("Take"+name, err)
		check("AddMany"+name, c.AddMany(s.ctx, []counter.Change{{Key: key, N: 1}}, options...))
		f := s.begin()
		_, err = c.AddTx(s.ctx, f.Tx, key, 1, options...)
		check("AddTx"+name, err)
		s.must(f.Rollback(s.ctx))
		f = s.begin()
		check("AddManyTx"+name, c.AddManyTx(s.ctx, f.Tx, []counter.Change{{Key: key, N: 1}}, options...))
		s.must(f.Rollback(s.ctx))
	}
}

func (s *suite[T]) columnKeys() {
	if s.repeated {
		return // a type is one at any level
	}
	wrong := []string{"abc", "", "1.5", "99999999999999999999", "1e999999", "'; drop table kinds; --", "\\x", "ü", "{", "2024-13-45", "00000000-0000"}
	type keyed struct{ kind, right string }
	kinds := []keyed{{"smallint", "7"}, {"integer", "7"}, {"bigint", "7"}, {"varchar(50)", "a key"}}
	if s.DB.Dialect() == tx.PostgreSQL {
		kinds = append(kinds, []keyed{
			{"uuid", "11111111-1111-1111-1111-111111111111"},
			{"numeric", "7"},
			{"date", "2024-02-29"},
			{"timestamptz", "2024-02-29 00:00Z"},
			{"boolean", "true"},
			{"inet", "10.0.0.1"},
			{"interval", "1 day"},
			{"char(3)", "abc"},
			{"jsonb", `{"a":1}`},
			{"double precision", "7"},
			{"text[]", "{a}"},
		}...)
	}
	for _, k := range kinds {
		table := s.DB.Dialect().Quote(s.key("by " + k.kind))
		s.exec(`create table ` + table + ` (id ` + k.kind + ` primary key, n integer not null)`)
		s.exec(`insert into ` + table + ` values ('` + k.right + `', 5)`)
		c := counter.NewColumn(s.DB, counter.Column{Table: s.key("by " + k.kind), Key: "id", Column: "n", Max: math.MaxInt32}, nil)
		s.must(c.Check(s.ctx))
		res, err := c.Take(s.ctx, k.right, 2)
		s.exact(res, err, 3)
		res, err = c.Add(s.ctx, k.right, 1, counter.Once("right "+k.kind))
		s.exact(res, err, 4)
		s.value(c, k.right, 4)
		for _, key := range wrong {
			if key == "" || key == k.right {
				continue
			}
			check := func(verb string, err error) {
				if errors.Is(err, counter.ErrNotFound) {
					return // it can be one, of no row
				}
				s.wantArgument(fmt.Sprintf("%s of %q as %s", verb, key, k.kind), err, table+`."id"`)
			}
			_, err := c.Get(s.ctx, key)
			check("Get", err)
			if s.each(c, key, check); s.Failed() {
				return
			}
		}
		s.crowd(16, func(int) {
			if _, err := c.Add(s.ctx, "\\x", 1); err == nil || holdfast.OutcomeOf(err) != holdfast.NotApplied {
				s.Errorf("%s: got %v", k.kind, err)
			}
		})
		s.value(c, k.right, 4)
	}
}

func (s *suite[T]) columnTypes() {
	if s.repeated {
		return // a type is one at any level
	}
	columns := s.kinds()
	if s.DB.Dialect() != tx.PostgreSQL {
		s.Log("does not apply: any column holds any value")
		return
	}
	for _, name := range []string{"words", "flag", "day", "at", "doc", "docb", "bytes", "ids", "span", "list"} {
		c := counter.NewColumn(s.DB, counter.Column{Table: "kind", Key: "id", Column: name}, nil)
		s.each(c, "a", func(verb string, err error) {
			s.wantArgument(verb+" on "+columns[name], err, `"kind"."`+name+`"`)
		})
	}
	c := counter.NewColumn(s.DB, counter.Column{Table: "kind", Key: "doc", Column: "big"}, nil)
	s.each(c, "{}", func(verb string, err error) { s.wantArgument(verb+" by json", err, `"doc"`) })
	for name, largest := range map[string]int64{"small": math.MaxInt16, "whole": math.MaxInt32} {
		c := counter.NewColumn(s.DB, counter.Column{Table: "kind", Key: "id", Column: name}, nil)
		_, err := c.Add(s.ctx, "a", largest)
		s.must(err)
		_, err = c.Add(s.ctx, "a", 1)
		s.wantArgument("more than "+name, err, "Column.Max")
		s.value(c, "a", largest)
	}
}

func (s *suite[T]) columnNames() {
	for _, name := range []string{"fresh", "gone", "changed", "c", "d", "x"} {
		q := s.DB.Dialect().Quote
		s.exec("drop table if exists " + q(name))
		s.exec("create table " + q(name) + " (op varchar(50) primary key, delta bigint)")
		s.exec("insert into "+q(name)+" values ($1, 5)", "a")
		c := counter.NewColumn(s.DB, counter.Column{Table: name, Key: "op", Column: "delta"}, nil)
		for _, options := range [][]counter.Option{nil, {counter.Once(s.key(name))}, {counter.Once(s.key(name))}} {
			if _, err := c.Add(s.ctx, "a", 2, options...); err != nil {
				s.Errorf("%s: %v", name, err)
			}
		}
		s.crowd(8, func(int) {
			if _, err := c.Take(s.ctx, "a", 1); err != nil {
				s.Errorf("%s: %v", name, err)
			}
		})
		if n, err := c.Get(s.ctx, "a"); err != nil || n != 1 {
			s.Errorf("%s: got %d, %v", name, n, err)
		}
	}
}
