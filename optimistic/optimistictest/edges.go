package optimistictest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/optimistic"
	"github.com/holdfast-go/holdfast/tx"
)

func edgeRules[T any]() []rule[T] {
	return []rule[T]{
		{"BadKeys", "an unusable key is refused before anything is sent", badKeys[T]},
		{"BadTables", "a table that cannot be used is reported by every verb and by Check", badTables[T]},
		{"QuotedNames", "names are quoted as they are, with quotes and SQL in them", quotedNames[T]},
		{"PlainNames", "a table may have the name of anything that a statement of the package has a name for", plainNames[T]},
		{"WideBatch", "a batch may set many columns of many rows", wideBatch[T]},
		{"Cancelled", "a context that has ended writes nothing, and says so", cancelled[T]},
		{"WrongColumns", "a version that is no integer and a key that is not unique are named by Check", wrongColumns[T]},
		{"WrongValues", "a key or a value that its column cannot have is told as such, and nothing is written", wrongValues[T]},
		{"Privileges", "a user who may read and update rows can do that, and Check says so", privileges[T]},
		{"NumericKeys", "keys and versions of other integer types work", numericKeys[T]},
	}
}

func badKeys[T any](s *suite[T]) {
	for _, key := range []any{nil, "\xff", "a\x00b", strings.Repeat("x", 10<<20)} {
		w := optimistic.Want{Key: key, Version: optimistic.At(0)}
		_, err := s.docs.Set(s.ctx, w, nil)
		s.want(err, optimistic.ErrInvalid)
		_, err = s.docs.Delete(s.ctx, w)
		s.want(err, optimistic.ErrInvalid)
		_, err = s.docs.Insert(s.ctx, optimistic.Want{Key: key}, nil)
		s.want(err, optimistic.ErrInvalid)
		s.want(s.docs.Update(s.ctx, key, func(context.Context, T) error { return nil }), optimistic.ErrInvalid)
		if holdfast.OutcomeOf(err) != holdfast.NotApplied {
			s.Fatalf("the outcome is %v", holdfast.OutcomeOf(err))
		}
	}
	for _, column := range []string{"", "\x00", "id", "version", "op", strings.Repeat("x", 64)} {
		_, err := s.docs.Set(s.ctx, at("a", 0), map[string]any{column: 1})
		s.want(err, optimistic.ErrInvalid)
	}
	_, err := s.docs.Set(s.ctx, at("a", 0), map[string]any{`title" = 'x', "size`: 1})
	s.want(err, tx.ErrNotMigrated)
}

func badTables[T any](s *suite[T]) {
	for _, bad := range []optimistic.Table{
		{},
		{Name: "\xff"},
		{Name: "a\x00"},
		{Name: strings.Repeat("x", 64)},
		{Name: "doc", Key: "version"},
		{Name: "doc", Token: "id"},
		{Name: "doc", Version: strings.Repeat("x", 10<<20)},
	} {
		rows := optimistic.New(s.DB, bad, nil)
		_, set := rows.Set(s.ctx, at("a", 0), nil)
		_, _, put := rows.Put(s.ctx, optimistic.Want{Key: "a"}, optimistic.Condition{}, optimistic.PlainOverwrite, nil)
		_, many := rows.SetMany(s.ctx, []optimistic.Item{{Want: at("a", 0)}})
		update := rows.Update(s.ctx, "a", func(context.Context, T) error { return nil })
		for _, err := range []error{rows.Check(s.ctx), set, put, many, update} {
			if err == nil || !strings.Contains(err.Error(), "optimistic: Table.") {
				s.Fatalf("%+v: got %v", bad, err)
			}
		}
	}
	for _, missing := range []optimistic.Table{{Name: "nothing"}, {Name: "doc", Version: "lock_version"}, {Name: "doc", Token: "nothing"}} {
		rows := optimistic.New(s.DB, missing, nil)
		s.want(rows.Check(s.ctx), tx.ErrNotMigrated)
		_, err := rows.Set(s.ctx, at("a", 0), nil)
		s.want(err, tx.ErrNotMigrated)
	}
}

func quotedNames[T any](s *suite[T]) {
	odd := optimistic.Table{Name: `a "doc"; drop table doc --`, Key: `the "key"`, Version: `v $1`, Token: `op ?`}
	q := s.DB.Dialect().Quote
	s.exec("create table " + q(odd.Name) + " (" + q(odd.Key) + " text primary key, " + q(odd.Version) + " bigint not null default 0, " +
		q(odd.Token) + " text, " + q(`the "title"`) + " text)")
	rows := optimistic.New(s.DB, odd, nil)
	s.must(rows.Check(s.ctx))
	w := optimistic.Want{Key: "a", Token: "op-1"}
	s.version(rows.Insert(s.ctx, w, map[string]any{`the "title"`: "x"}))(0)
	w.Version, w.Token = optimistic.At(0), "op-2"
	s.version(rows.Set(s.ctx, w, map[string]any{`the "title"`: "y"}))(1)
	w.Version, w.Token = optimistic.At(1), "op-3"
	results, err := rows.SetMany(s.ctx, []optimistic.Item{{Want: w, Set: map[string]any{`the "title"`: "z"}}})
	s.must(err)
	s.version(results[0].Version, results[0].Err)(2)
	s.version(rows.Delete(s.ctx, at("a", 2)))(2)
}

func plainNames[T any](s *suite[T]) {
	for _, name := range []string{"sent", "form", "wanted", "locked", "done", "w", "r", "d", "l", "k", "p", "v", "t", "i", "j", "whole", "items"} {
		q := s.DB.Dialect().Quote(name)
		version := "version"
		if name == "v" {
			version = "v"
		}
		s.exec("create table " + q + " (" + s.DB.Dialect().Quote(name+"_id") + " text primary key, " + version + " bigint not null default 0, " + s.DB.Dialect().Quote("x"+name) + " text, k text, p text, t text, i text, j text, r text, w text, whole text)")
		rows := optimistic.New(s.DB, optimistic.Table{Name: name, Key: name + "_id", Version: version}, nil)
		s.version(rows.Insert(s.ctx, optimistic.Want{Key: "a"}, nil))(0)
		set := map[string]any{"x" + name: "x", "k": "k", "p": "p", "t": "t", "i": "i", "j": "j", "r": "r", "w": "w", "whole": "whole"}
		s.version(rows.Set(s.ctx, at("a", 0), set))(1)
		results, err := rows.SetMany(s.ctx, []optimistic.Item{{Want: at("a", 1), Set: set}})
		if err != nil {
			s.Errorf("%s: %v", name, err)
			continue
		}
		s.version(results[0].Version, results[0].Err)(2)
	}
}

func wideBatch[T any](s *suite[T]) {
	const columns, items = 60, 1000
	create, set := "create table wide (id bigint primary key, version bigint not null default 0", map[string]any{}
	for i := range columns {
		create += fmt.Sprintf(", c%d bigint", i)
		set[fmt.Sprint("c", i)] = i
	}
	s.exec(create + ")")
	s.exec("with recursive n(i) as (select 0 union all select i + 1 from n where i < $1) insert into wide (id) select i from n", items-1)
	many := make([]optimistic.Item, items)
	for i := range many {
		many[i] = optimistic.Item{Want: optimistic.Want{Key: i, Version: optimistic.At(0)}, Set: set}
	}
	rows := optimistic.New(s.DB, optimistic.Table{Name: "wide"}, nil)
	twice := slices.Clone(many)
	twice[items-1].Key = "00"
	_, err := rows.SetMany(s.ctx, twice)
	s.want(err, optimistic.ErrInvalid)
	results, err := rows.SetMany(s.ctx, many)
	s.must(err)
	for _, r := range results {
		s.version(r.Version, r.Err)(1)
	}
	var n int
	s.must(s.DB.Conn().QueryRow(s.ctx, "select count(*) from wide where c59 = 59 and version = 1").Scan(&n))
	if n != items {
		s.Fatalf("%d of %d rows were written", n, items)
	}
}

func cancelled[T any](s *suite[T]) {
	s.make("a", 0)
	ctx, cancel := context.WithCancelCause(s.ctx)
	cancel(errPlain)
	_, err := s.docs.Set(ctx, at("a", 0), title("x"))
	s.want(err, errPlain)
	if holdfast.OutcomeOf(err) != holdfast.NotApplied {
		s.Fatalf("the outcome is %v", holdfast.OutcomeOf(err))
	}
	_, err = s.docs.SetMany(ctx, []optimistic.Item{{Want: at("a", 0)}})
	s.want(err, errPlain)
	s.is("a", "made", 0)
}

func wrongColumns[T any](s *suite[T]) {
	s.exec("create table odd (id text primary key, other text, stamp timestamp, words text, small smallint, whole integer, big bigint)")
	for _, c := range []struct {
		table optimistic.Table
		seed  bool
		wrong string
	}{
		{optimistic.Table{Version: "stamp"}, false, "stamp"},
		{optimistic.Table{Version: "words"}, false, "words"},
		{optimistic.Table{Version: "small"}, false, ""},
		{optimistic.Table{Version: "whole"}, false, ""},
		{optimistic.Table{Version: "big"}, true, ""},
		{optimistic.Table{Version: "big", Key: "other"}, false, "other"},
	} {
		c.table.Name = "odd"
		err := optimistic.New(s.DB, c.table, &optimistic.Options{SeedVersions: c.seed}).Check(s.ctx)
		var wrong *tx.ColumnError
		switch {
		case c.wrong == "":
			s.must(err)
		case !errors.As(err, &wrong) || wrong.Column != c.wrong || !errors.Is(err, tx.ErrColumn):
			s.Fatalf("%+v: got %v", c, err)
		}
	}
	err := optimistic.New(s.DB, optimistic.Table{Name: "odd", Version: "whole"}, &optimistic.Options{SeedVersions: true}).Check(s.ctx)
	if narrow := s.DB.Dialect() == tx.PostgreSQL; narrow != errors.Is(err, tx.ErrColumn) {
		s.Fatalf("seeded versions in 32 bits: got %v", err)
	}
}

func wrongValues[T any](s *suite[T]) {
	if s.DB.Dialect() != tx.PostgreSQL {
		s.Log("a column has values of any type")
		return
	}
	s.exec("create table num (id integer primary key, version integer not null default 0, n integer)")
	s.exec("insert into num (id) values (1)")
	rows := optimistic.New(s.DB, optimistic.Table{Name: "num"}, nil)
	set := map[string]any{"n": 1}
	bad := map[string]func(ctx context.Context, w optimistic.Want, set map[string]any) error{
		"Set": func(ctx context.Context, w optimistic.Want, set map[string]any) error {
			_, err := rows.Set(ctx, w, set)
			return err
		},
		"Delete": func(ctx context.Context, w optimistic.Want, _ map[string]any) error {
			_, err := rows.Delete(ctx, w)
			return err
		},
		"Insert": func(ctx context.Context, w optimistic.Want, set map[string]any) error {
			w.Version = optimistic.Version{}
			_, err := rows.Insert(ctx, w, set)
			return err
		},
		"SetMany": func(ctx context.Context, w optimistic.Want, set map[string]any) error {
			_, err := rows.SetMany(ctx, []optimistic.Item{{Want: w, Set: set}})
			return err
		},
		"Edit": func(ctx context.Context, w optimistic.Want, set map[string]any) error {
			w.Version = optimistic.Version{}
			_, err := rows.Edit(ctx, w, nil, func(context.Context, T) (map[string]any, error) { return set, nil })
			return err
		},
	}
	for verb, call := range bad {
		for _, key := range []any{"x", struct{ A int }{1}, int64(1) << 40} {
			err := call(s.ctx, optimistic.Want{Key: key, Version: optimistic.At(0)}, set)
			if errors.Is(err, optimistic.ErrNotFound) && key == int64(1)<<40 {
				continue // the driver sends it as a wider type
			}
			if s.want(err, optimistic.ErrInvalid); holdfast.OutcomeOf(err) != holdfast.NotApplied {
				s.Fatalf("%s of %v: got %v, which is %v", verb, key, err, holdfast.OutcomeOf(err))
			}
		}
	}
	for _, verb := range []string{"Set", "SetMany"} {
		err := bad[verb](s.ctx, optimistic.Want{Key: 1, Version: optimistic.At(0)}, map[string]any{"n": "many"})
		if s.want(err, optimistic.ErrInvalid); holdfast.OutcomeOf(err) != holdfast.NotApplied {
			s.Fatalf("%s: got %v", verb, err)
		}
	}
	var version int
	s.must(s.DB.Conn().QueryRow(s.ctx, "select version from num").Scan(&version))
	if version != 0 {
		s.Fatalf("version %d", version)
	}
}

func numericKeys[T any](s *suite[T]) {
	s.exec("create table num (n bigint primary key, v smallint not null default 0, size integer)")
	rows := optimistic.New(s.DB, optimistic.Table{Name: "num", Key: "n", Version: "v"}, nil)
	want := func(key any, n int64) optimistic.Want { return optimistic.Want{Key: key, Version: optimistic.At(n)} }
	s.version(rows.Insert(s.ctx, optimistic.Want{Key: int64(7)}, nil))(0)
	s.version(rows.Set(s.ctx, want(7, 0), map[string]any{"size": 3}))(1)
	_, err := rows.Set(s.ctx, want(int64(7), 1<<40), nil) // beyond the column's type
	s.want(err, optimistic.ErrConflict)
	results, err := rows.SetMany(s.ctx, []optimistic.Item{{Want: want(7, 1), Set: map[string]any{"size": 4}}, {Want: want(8, 1<<40), Set: map[string]any{"size": 4}}})
	s.must(err)
	s.version(results[0].Version, results[0].Err)(2)
	s.want(results[1].Err, optimistic.ErrNotFound)
}

func privileges[T any](s *suite[T]) {
	if s.DB.Dialect() != tx.PostgreSQL {
		s.Log("there are no privileges")
		return
	}
	s.make("a", 0)
	s.want(s.DB.Do(s.ctx, func(ctx context.Context, t T) error {
		var schema string
		s.must(s.DB.Tx(t).QueryRow(ctx, "select current_schema()").Scan(&schema))
		role := s.DB.Dialect().Quote(schema + " editor") // it goes with the transaction
		for _, query := range []string{
			"create role " + role, "grant usage on schema " + s.DB.Dialect().Quote(schema) + " to " + role,
			"grant select, update on doc to " + role, "set local role " + role,
		} {
			_, err := s.DB.Tx(t).Exec(ctx, query)
			s.must(err)
		}
		s.must(s.docs.Check(ctx))
		s.version(s.docs.SetTx(ctx, t, at("a", 0), title("x")))(1)
		results, err := s.docs.SetManyTx(ctx, t, []optimistic.Item{{Want: at("a", 1), Set: title("y")}})
		s.must(err)
		s.version(results[0].Version, results[0].Err)(2)
		s.version(s.docs.Edit(ctx, optimistic.Want{Key: "a"}, nil, func(context.Context, T) (map[string]any, error) { return title("z"), nil }))(3)
		if _, err = s.docs.DeleteTx(ctx, t, at("a", 3)); err == nil {
			s.Error("deleted")
		}
		return errPlain
	}), errPlain)
}
