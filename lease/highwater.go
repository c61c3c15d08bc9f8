package lease

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/tx"
)

// DefaultHighWater is the table of [HighWater].
const DefaultHighWater = "lease_high"

// A HighWater guards transactions on a database that the leases are not in, by the highest token that it has seen. It is
// weaker than [Fence.Guard]: a holder of the past is refused only once a later one has written. Let a holder write its token
// first, before it acts. It is safe for concurrent use.
type HighWater[T any] struct {
	db         *tx.DB[T]
	table      tx.Table
	pass, look string
	err        error
}

// highWaterPostgres writes when the holder is new. Transactions of one holder share the row's lock, and a later holder waits for
// their end.
const highWaterPostgres = `with mine as (
	select 1 from {table} where name = $1::text and token = $2::bigint and nonce = $3::text for share
), risen as (
	insert into {table} as h (name, token, nonce) select $1::text, $2::bigint, $3::text where not exists (select from mine)
	on conflict (name) do update set token = excluded.token, nonce = excluded.nonce where h.token < excluded.token
	returning 1
)
select 1 from mine union all select 1 from risen`

const highWaterSQLite = `insert into {table} as h (name, token, nonce) values ($1, $2, $3)
on conflict (name) do update set token = excluded.token, nonce = excluded.nonce
where h.token < excluded.token or h.token = excluded.token and h.nonce = excluded.nonce
returning 1`

const highestSQL = `select token from {table} where name = $1`

// NewHighWater returns the guard of db, by the table that [Migrate] makes in it. Names that cannot be used are reported by every
// method.
func NewHighWater[T any](db *tx.DB[T], names Names) *HighWater[T] {
	name := cmp.Or(names.HighWater, DefaultHighWater)
	in := strings.NewReplacer("{table}", db.Dialect().Table(names.Schema, name))
	w := &HighWater[T]{
		db: db, table: tx.Table{Schema: names.Schema, Name: name, Columns: []string{"name", "token", "nonce"}},
		pass: in.Replace(highWaterPostgres), look: in.Replace(highestSQL), err: names.check(db.Dialect()),
	}
	if db.Dialect() == tx.SQLite {
		w.pass = in.Replace(highWaterSQLite)
	}
	return w
}

// Check reports, for the start of a service, whether the table is there with its columns and the database takes writes. See
// [tx.CheckTables] for the errors.
func (w *HighWater[T]) Check(ctx context.Context) error {
	if w.err != nil {
		return w.err
	}
	return tx.CheckTables(ctx, w.db, w.table)
}

// Guard refuses, with a [*FencedError] that has the token of the later holder, if one has written here. Otherwise the token of f
// is the highest once t commits. It is one round trip, and two when it refuses. Return its error.
func (w *HighWater[T]) Guard(ctx context.Context, t T, f Fence) error {
	if w.err != nil {
		return w.err
	}
	if f.Name == "" || f.Nonce == "" {
		return &InputError{Name: "the fence", Reason: "is empty: take it from a Held"}
	}
	conn := w.db.Tx(t)
	s := &tx.Stmt{SQL: w.pass, Args: []any{f.Name, f.Token, f.Nonce}, Dest: []any{new(int)}}
	if err := conn.Batch(ctx, s); err != nil || s.Found {
		return err
	}
	refused := &FencedError{Fence: f}
	if err := conn.QueryRow(ctx, w.look, f.Name).Scan(&refused.Token); err != nil {
		return fmt.Errorf("%w: %w", refused, err)
	}
	return refused
}
