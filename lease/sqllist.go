package lease

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/tx"
)

const listPostgres = `select {holding} from {table}
where expires_at > clock_timestamp() and starts_with(name, $1::text) and name > $2::text collate "C"
order by name collate "C" limit $3`

const listSQLite = `select {holding} from {table}
where expires_at > {now} and substr(name, 1, length($1)) = $1 and name > $2
order by name limit $3`

// The columns of a Holding, with times in microseconds.
const (
	holdingPostgres = `name, coalesce(holder, ''), coalesce(meta, ''), token, (extract(epoch from acquired_at) * 1000000)::bigint,
	(extract(epoch from expires_at) * 1000000)::bigint, resign, nonce is null`
	holdingSQLite = `name, coalesce(holder, ''), coalesce(meta, ''), token, acquired_at * 1000, expires_at * 1000, resign, nonce is null`
)

// scanHolding reads the columns above, and then more.
func scanHolding(row tx.Row, h *Holding, more ...any) error {
	var since, until int64
	dest := append([]any{&h.Name, &h.Holder, &h.Meta, &h.Token, &since, &until, &h.Resigning, &h.Released}, more...)
	if err := row.Scan(dest...); err != nil {
		return err
	}
	h.Since, h.Until = time.UnixMicro(since), time.UnixMicro(until)
	return nil
}

// findSQL finds by the key, also where the list would read the table.
const findSQL = `select {holding} from {table} where name = $1 and expires_at > {now}`

// Look implements [Lister]: one statement.
func (s *SQL[T]) Look(ctx context.Context, name string) (Holding, error) {
	return s.one(ctx, s.sql.find, name)
}

// one returns the lease that query tells, or ErrFree.
func (s *SQL[T]) one(ctx context.Context, query, name string) (h Holding, err error) {
	if s.err != nil {
		return h, s.err
	}
	err = s.again(ctx, func() error { return scanHolding(s.db.Conn().QueryRow(ctx, query, name), &h) })
	if errors.Is(err, tx.ErrNoRows) {
		return h, ErrFree
	}
	return h, err
}

// List implements [Lister]: one statement. On PostgreSQL it reads the table, however short the page.
func (s *SQL[T]) List(ctx context.Context, p Page) (holdings []Holding, err error) {
	if s.err != nil {
		return nil, s.err
	}
	err = s.again(ctx, func() error {
		holdings = nil
		rows, err := s.db.Conn().Query(ctx, s.sql.list, p.Prefix, p.After, p.Limit)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var h Holding
			if err := scanHolding(rows, &h); err != nil {
				return err
			}
			holdings = append(holdings, h)
		}
		return rows.Err()
	})
	return holdings, err
}

// resignSQL changes no column of a key, so that it waits for no guard.
const resignSQL = `update {table} set resign = true where name = $1 and nonce is not null returning {holding}`

// RequestResign implements [Resigner]: one statement.
func (s *SQL[T]) RequestResign(ctx context.Context, name string) (Holding, error) {
	return s.one(ctx, s.sql.resign, name)
}
