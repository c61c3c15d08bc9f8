package pessimistictest_test

import (
	"context"
	"math/big"
	"net/netip"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/internal/testdb/pgxdb"
	"github.com/holdfast-go/holdfast/pessimistic"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
)

// The types of pgx for keys, which hold pointers and slices, or several spellings of one value.
func TestKeysOfPgx(t *testing.T) {
	t.Parallel()
	pool := pgxdb.Pool(t, testdb.Postgres(t), 12)
	numeric := func(n int64, exp int32) pgtype.Numeric {
		return pgtype.Numeric{Int: big.NewInt(n), Exp: exp, Valid: true}
	}
	for name, c := range map[string]struct {
		column string
		keys   func() []any // of two rows, the first of them twice
	}{
		"numeric": {"numeric(9,2)", func() []any { return []any{numeric(700, -2), numeric(8, 0), numeric(7, 0)} }},
		"uuid": {"uuid", func() []any {
			return []any{pgtype.UUID{Bytes: [16]byte{1}, Valid: true}, pgtype.UUID{Valid: true}, pgtype.UUID{Bytes: [16]byte{1}, Valid: true}}
		}},
		"bits": {"varbit", func() []any { return []any{bits(1), bits(2), bits(1)} }},
		"inet": {"inet", func() []any {
			return []any{netip.MustParsePrefix("10.0.0.1/32"), netip.MustParsePrefix("::1/128"), netip.MustParsePrefix("10.0.0.1/32")}
		}},
		"text": {"text", func() []any {
			return []any{pgtype.Text{String: "a", Valid: true}, pgtype.Text{String: "b", Valid: true}, pgtype.Text{String: "a", Valid: true}}
		}},
	} {
		if _, err := pool.Exec(t.Context(), "create table of_"+name+" (id "+c.column+" primary key)"); err != nil {
			t.Fatal(err)
		}
		for _, key := range c.keys()[:2] {
			if _, err := pool.Exec(t.Context(), "insert into of_"+name+" values ($1)", key); err != nil {
				t.Fatal(err)
			}
		}
		rows := pessimistic.Table{Name: "of_" + name}.Rows(c.keys()...)
		if err := pessimistic.New(pgxtx.New(pool), nil).Do(t.Context(), []pessimistic.Rows{rows}, func(context.Context, pgx.Tx) error { return nil }); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func bits(b byte) pgtype.Bits { return pgtype.Bits{Bytes: []byte{b}, Len: 8, Valid: true} }
