package pessimistictest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/big"

	"github.com/holdfast-go/holdfast/pessimistic"
	"github.com/holdfast-go/holdfast/tx"
)

func keyRules[T any]() []rule[T] {
	return []rule[T]{
		{"keys that point", "Keys are the same if their values are, not the memory that these are in.", nil, pointingKeys[T]},
		{"named keys", "A type of the caller's own for keys is as the type below it.", nil, namedKeys[T]},
	}
}

// decimal is as those of decimal packages: it is compared by ==, and that compares the address.
type decimal struct{ n *big.Int }

func dec(n int64) decimal { return decimal{big.NewInt(n)} }

func (d decimal) String() string { return d.n.String() }

func (d decimal) Value() (driver.Value, error) {
	if d.n == nil {
		return nil, nil //nolint:nilnil // NULL
	}
	return d.n.String(), nil
}

func (d *decimal) Scan(src any) error {
	text := fmt.Sprint(src)
	if b, ok := src.([]byte); ok {
		text = string(b)
	}
	var ok bool
	if d.n, ok = new(big.Int).SetString(text, 10); !ok {
		return fmt.Errorf("a decimal from %T %v", src, src)
	}
	return nil
}

func pointingKeys[T any](s *suite[T]) {
	kind := "text"
	if s.DB.Dialect() == tx.PostgreSQL {
		kind = "numeric"
	}
	s.exec("create table price (id " + kind + " primary key)")
	s.exec("insert into price values ($1)", dec(7))
	s.exec("insert into price values ($1)", dec(8))
	prices, f := pessimistic.Table{Name: "price"}, s.begin()
	l := s.locks(pessimistic.Options{})
	s.must(l.Lock(s.ctx, f.Tx, prices.Rows(dec(8), dec(7), dec(8))))
	var m *pessimistic.MissingError
	if err := l.Lock(s.ctx, f.Tx, prices.Rows(dec(8), dec(9), dec(9))); !errors.As(err, &m) || len(m.Keys) != 1 || fmt.Sprint(m.Keys[0]) != "9" {
		s.Errorf("got %v", err)
	}
	s.want(l.Lock(s.ctx, f.Tx, prices.Rows(decimal{})), pessimistic.ErrInvalid)
	s.usable(f.Tx)
}

type (
	text string
	blob []byte
)

func namedKeys[T any](s *suite[T]) {
	l, f := s.locks(pessimistic.Options{}), s.begin()
	s.must(l.Lock(s.ctx, f.Tx, stocks.Rows(text("s2"), text("s1"))))
	for _, bad := range []any{text("a\x00"), text("\xff"), sql.NullString{String: "a\x00", Valid: true}, sql.NullString{}} {
		s.want(l.Lock(s.ctx, f.Tx, stocks.Rows(bad)), pessimistic.ErrInvalid)
		s.usable(f.Tx)
	}
	s.must(l.Lock(s.ctx, f.Tx, stocks.Rows(sql.NullString{String: "s2", Valid: true}, sql.NullString{String: "s2", Valid: true})))
	s.must(f.Rollback(s.ctx))
	kind := "blob"
	if s.DB.Dialect() == tx.PostgreSQL {
		kind = "bytea"
	}
	s.exec("create table piece (id " + kind + " primary key)")
	s.exec("insert into piece values ($1)", []byte{0, 1})
	s.must(l.Do(s.ctx, []pessimistic.Rows{pessimistic.Table{Name: "piece"}.Rows(blob{0, 1}, blob{0, 1})}, func(context.Context, T) error { return nil }))
}
