package pgxtx_test

import (
	"bytes"
	"context"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	holdfast "github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tx"
)

// A word is an argument with a type of its own.
type word string

func (w word) Value() (driver.Value, error) { return "the word " + string(w), nil }

// Arguments arrive as they are when a statement travels with BEGIN, in a batch and with COMMIT.
func TestArguments(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)
	text := "a"
	binary := bytes.Repeat([]byte{0, 1, 0xff, '\\', '\''}, 100)
	inEachMode(t, func(t *testing.T, _ *pgxpool.Pool, db *tx.DB[pgx.Tx]) {
		for _, c := range []struct {
			sqlType string
			arg     any
			want    any
		}{
			{"bigint", 7, int64(7)},
			{"bigint", int64(-1) << 63, int64(-1) << 63},
			{"text", "", ""},
			{"text", `quo"te'\`, `quo"te'\`},
			{"text", strings.Repeat("é", 100_000), strings.Repeat("é", 100_000)},
			{"text", &text, "a"},
			{"text", word("w"), "the word w"},
			{"bytea", binary, binary},
			{"bytea", []byte{}, []byte{}},
			{"boolean", true, true},
			{"double precision", 1.5, 1.5},
			{"timestamptz", now, now},
			{"bigint[]", []int64{1, 2}, []int64{1, 2}},
			{"text[]", []string{"a,b", `c"d`, ""}, []string{"a,b", `c"d`, ""}},
			{"jsonb", json.RawMessage(`{"a": 1}`), json.RawMessage(`{"a": 1}`)},
			{"uuid", "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "6ba7b810-9dad-11d1-80b4-00c04fd430c8"},
			{"interval", 90 * time.Second, 90 * time.Second},
			{"text", nil, (*string)(nil)},
			{"bytea", []byte(nil), []byte(nil)},
			{"text", (*string)(nil), (*string)(nil)},
		} {
			var dest [3]reflect.Value
			stmts := make([]*tx.Stmt, len(dest))
			for i := range dest {
				dest[i] = reflect.New(reflect.TypeOf(c.want))
				stmts[i] = &tx.Stmt{SQL: "select $1::" + c.sqlType, Args: []any{c.arg}, Dest: []any{dest[i].Interface()}}
			}
			err := db.Run(t.Context(), tx.Plan[pgx.Tx]{
				Lead: func() []*tx.Stmt { return stmts[:1] },
				Work: func(ctx context.Context, nt pgx.Tx) error {
					if err := db.Tx(nt).Batch(ctx, stmts[1]); err != nil {
						return err
					}
					return db.Defer(ctx, nt, stmts[2])
				},
			})
			if err != nil {
				t.Errorf("%s %v: %v", c.sqlType, c.arg, err)
				continue
			}
			for i := range dest {
				got := dest[i].Elem().Interface()
				if at, ok := got.(time.Time); ok {
					got = at.UTC()
				}
				if !reflect.DeepEqual(got, c.want) {
					t.Errorf("%s, statement %d: got %#v, want %#v", c.sqlType, i, got, c.want)
				}
			}
		}
	})
}

// An argument that cannot be sent fails before anything is sent: nothing is applied, and the pool goes on.
func TestArgumentThatCannotBeSent(t *testing.T) {
	inEachMode(t, func(t *testing.T, pool *pgxpool.Pool, db *tx.DB[pgx.Tx]) {
		bad := &tx.Stmt{SQL: "select $1::text", Args: []any{make(chan int)}}
		for name, p := range map[string]tx.Plan[pgx.Tx]{
			"lead": {
				Lead: func() []*tx.Stmt { return []*tx.Stmt{bad} },
				Work: func(context.Context, pgx.Tx) error { return errors.New("the closure ran") },
			},
			"batch": {Work: func(ctx context.Context, nt pgx.Tx) error { return db.Tx(nt).Batch(ctx, bad) }},
			"deferred": {Work: func(ctx context.Context, nt pgx.Tx) error {
				if _, err := nt.Exec(ctx, insertEntry, 1); err != nil {
					return err
				}
				return db.Defer(ctx, nt, bad)
			}},
		} {
			err := db.Run(t.Context(), p)
			if got := holdfast.OutcomeOf(err); got != holdfast.NotApplied || strings.Contains(err.Error(), "closure ran") {
				t.Errorf("%s: got %v (%v), want it not applied", name, err, got)
			}
		}
		count(t, pool, 0)
	})
}

// A row that does not fit its destination fails the transaction. With COMMIT it comes too late to prevent anything.
func TestRowThatDoesNotFit(t *testing.T) {
	inEachMode(t, func(t *testing.T, _ *pgxpool.Pool, db *tx.DB[pgx.Tx]) {
		misfit := func() *tx.Stmt { return &tx.Stmt{SQL: "select 'a'::text", Dest: []any{new(int)}} }
		err := db.Run(t.Context(), tx.Plan[pgx.Tx]{
			Lead: func() []*tx.Stmt { return []*tx.Stmt{misfit()} },
			Work: func(context.Context, pgx.Tx) error { return errors.New("the closure ran") },
		})
		if holdfast.OutcomeOf(err) != holdfast.NotApplied || strings.Contains(err.Error(), "closure ran") {
			t.Errorf("got %v, want it not applied", err)
		}
		if err := db.Do(t.Context(), func(ctx context.Context, nt pgx.Tx) error { return db.Defer(ctx, nt, misfit()) }); err == nil {
			t.Error("the misfit at the commit was not told")
		}
	})
}
