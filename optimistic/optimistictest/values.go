package optimistictest

import (
	"database/sql"
	"database/sql/driver"
	"fmt"
	"math"
	"time"

	"github.com/holdfast-go/holdfast/optimistic"
	"github.com/holdfast-go/holdfast/tx"
)

func valueRules[T any]() []rule[T] {
	return []rule[T]{
		{"BatchValues", "a value means the same in a batch as in a write of one row, whatever the types of column and value", batchValues[T]},
		{"BatchKeys", "a batch finds rows by keys of the types that a write of one row finds them by", batchKeys[T]},
		{"PointerKeys", "a key that is a pointer stands for what it points to", pointerKeys[T]},
		{"NamedKeys", "an unusable key is refused whatever the name of its type", namedKeys[T]},
	}
}

// grade is stored as a word, which only its Value tells.
type grade int

func (g grade) Value() (driver.Value, error) { return []string{"low", "high"}[g], nil }

type (
	words string
	octet []byte
)

func pointer[V any](v V) *V { return &v }

func batchValues[T any](s *suite[T]) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 123456000, time.FixedZone("x", 3*3600))
	type column struct {
		kind   string
		values []any
	}
	columns := []column{
		{"text", []any{
			"é\n\"'\\", `\x41`, words("w"), pointer("p"), pointer(pointer("pp")), (*string)(nil), grade(1), pointer(grade(1)),
			sql.NullString{String: "s", Valid: true},
			sql.NullString{},
			sql.Null[string]{V: "n", Valid: true},
		}},
		{"bigint", []any{int64(math.MaxInt64), int32(-3), sql.NullInt64{Int64: 1<<53 + 1, Valid: true}, sql.NullInt64{}, pointer(int64(4)), "12"}},
		{"boolean", []any{true, sql.NullBool{Bool: true, Valid: true}}},
		{"double precision", []any{1e21, -0.1, float32(0.5), sql.NullFloat64{Float64: 1e-300, Valid: true}}},
	}
	blob := []any{[]byte{0, 255, 92}, []byte{}, []byte(nil), octet{1, 2}, pointer([]byte{3})}
	if s.DB.Dialect() == tx.PostgreSQL {
		s.exec("create type mood as enum ('low', 'high')")
		s.exec("create domain short as varchar(5) check (value <> 'bad')")
		s.exec("create domain whole as integer not null")
		s.exec("create collation folded (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
		columns = append(columns,
			column{"bytea", blob},
			column{"mood", []any{"high", grade(0), nil}}, column{"short", []any{"a", words("b")}},
			column{"whole", []any{7}}, column{"char(5)", []any{"ab"}}, column{"text collate folded", []any{"Ab"}},
			column{"numeric(30,10)", []any{"12345678901234567890.0123456789", "NaN", 3}}, column{"numeric", []any{"1.500"}},
			column{"timestamptz", []any{now, "infinity", sql.NullTime{Time: now, Valid: true}, pointer(now)}},
			column{"date", []any{"2026-01-02"}}, column{"interval", []any{"1 day 2 hours"}}, column{"uuid", []any{"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"}},
			column{"integer[]", []any{"{1,NULL,3}", "{{1,2},{3,4}}"}}, column{"text[]", []any{`{"a,b",c}`}}, column{"inet", []any{"10.0.0.1/8"}},
			column{"jsonb", []any{`{"a": [1, "x"]}`, `"word"`, "12", nil, words(`[1]`), sql.NullString{String: "{}", Valid: true}}},
			column{"json", []any{`{"a": 1}`}}, column{"int4range", []any{"[1,5)"}}, column{"bit(3)", []any{"101"}}, column{"point", []any{"(1,2)"}},
		)
	} else {
		columns = append(columns, column{"blob", blob})
	}
	for n, c := range columns {
		name, more := fmt.Sprint("kinds", n), ""
		if s.DB.Dialect() == tx.PostgreSQL { // columns that a batch has nothing to do with
			more = ", must whole default 1, twice bigint generated always as (id * 2) stored"
		}
		s.exec("create table " + name + ` (id bigint primary key, "the ""value""" ` + c.kind + ", version integer not null default 0" + more + ")")
		rows := optimistic.New(s.DB, optimistic.Table{Name: name}, nil)
		for i, value := range c.values {
			one, many := 2*i, 2*i+1
			set, none := map[string]any{`the "value"`: value}, map[string]any{}
			if c.kind == "whole" {
				none[`the "value"`] = 0
			}
			s.version(rows.Insert(s.ctx, optimistic.Want{Key: one}, none))(0)
			s.version(rows.Insert(s.ctx, optimistic.Want{Key: many}, none))(0)
			s.version(rows.Set(s.ctx, optimistic.Want{Key: one, Version: optimistic.At(0)}, set))(1)
			results, err := rows.SetMany(s.ctx, []optimistic.Item{{Want: optimistic.Want{Key: many, Version: optimistic.At(0)}, Set: set}})
			if err != nil || results[0].Err != nil {
				s.Errorf("%T %v in %s: %v, %+v", value, value, c.kind, err, results)
				continue
			}
			var texts [2]sql.NullString
			for i, id := range []int{one, many} {
				s.must(s.DB.Conn().QueryRow(s.ctx, `select cast("the ""value""" as text) from `+name+" where id = $1", id).Scan(&texts[i]))
			}
			if texts[0] != texts[1] {
				s.Errorf("%T %v in %s: Set wrote %+v, SetMany %+v", value, value, c.kind, texts[0], texts[1])
			}
		}
	}
}

func batchKeys[T any](s *suite[T]) {
	keys := map[string][]any{"text": {"a", words("b"), pointer("c"), sql.NullString{String: "d", Valid: true}, grade(0)}}
	if s.DB.Dialect() == tx.PostgreSQL {
		keys["bytea"] = []any{[]byte{1}, octet{2}}
		keys["numeric"] = []any{"1.50", 2}
		keys["timestamptz"] = []any{time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("x", 3600))}
		keys["uuid"] = []any{"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"}
	} else {
		keys["blob"] = []any{[]byte{1}, octet{2}}
	}
	for kind, of := range keys {
		s.exec("create table key_" + kind + " (id " + kind + " primary key, version integer not null default 0)")
		rows := optimistic.New(s.DB, optimistic.Table{Name: "key_" + kind}, nil)
		for _, key := range of {
			s.version(rows.Insert(s.ctx, optimistic.Want{Key: key}, nil))(0)
			results, err := rows.SetMany(s.ctx, []optimistic.Item{{Want: optimistic.Want{Key: key, Version: optimistic.At(0)}}})
			if err != nil || results[0].Err != nil {
				s.Errorf("%T %v of %s: %v, %+v", key, key, kind, err, results)
			}
		}
	}
}

func pointerKeys[T any](s *suite[T]) {
	s.make("a", 0)
	want := func(n int64) optimistic.Want { return optimistic.Want{Key: pointer("a"), Version: optimistic.At(n)} }
	s.version(s.docs.Set(s.ctx, want(0), title("x")))(1)
	_, err := s.docs.SetMany(s.ctx, []optimistic.Item{{Want: want(1), Set: title("y")}, {Want: want(1), Set: title("z")}})
	s.want(err, optimistic.ErrInvalid)
	s.is("a", "x", 1)
}

func namedKeys[T any](s *suite[T]) {
	f := s.begin()
	for _, key := range []any{words("a\x00"), words("\xff"), pointer("\xff"), (*string)(nil), sql.NullString{}, sql.NullString{String: "\x00", Valid: true}} {
		w := optimistic.Want{Key: key, Version: optimistic.At(0)}
		_, err := s.docs.SetTx(s.ctx, f.Tx, w, nil)
		s.want(err, optimistic.ErrInvalid)
		_, err = s.docs.InsertTx(s.ctx, f.Tx, optimistic.Want{Key: key}, nil)
		s.want(err, optimistic.ErrInvalid)
		_, err = s.docs.SetManyTx(s.ctx, f.Tx, []optimistic.Item{{Want: w}})
		s.want(err, optimistic.ErrInvalid)
	}
	s.version(s.docs.InsertTx(s.ctx, f.Tx, optimistic.Want{Key: "goes on"}, nil))(0)
}
