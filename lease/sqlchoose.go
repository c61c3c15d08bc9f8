package lease

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/tx"
)

// choosePostgres is acquirePostgres with a choice. Who comes at the same moment passes over the row that another takes, and takes the
// next. Rows that are missing are made all at once, so that two who make them are the exception: the second is told to try again.
const choosePostgres = `with slots as (
	select name, n from jsonb_array_elements_text($1::jsonb) with ordinality as s (name, n)
), own as (
	select t.name, t.token from slots s join {table} t on t.name = s.name where t.nonce = $4::text
), free as (
	select t.name from slots s join {table} t on t.name = s.name
	where t.expires_at <= clock_timestamp() and not exists (select from own)
	order by s.n limit 1 for update of t skip locked
), taken as (
	update {table} t set token = greatest(t.token + 1, nextval('{tokens}')), holder = $2::text, meta = $3::text, nonce = $4::text,
		acquired_at = clock_timestamp(), expires_at = clock_timestamp() + greatest($5::bigint, $6::bigint) * interval '1 microsecond',
		keep_until = clock_timestamp() + $6::bigint * interval '1 microsecond', resign = false
	from free where t.name = free.name returning t.name, t.token
), missing as (
	select name, row_number() over (order by n) = 1 as mine from slots s
	where not exists (select from {table} t where t.name = s.name) and not exists (select from own) and not exists (select from free)
), made as (
	insert into {table} (name, token, holder, meta, nonce, acquired_at, expires_at, keep_until)
	select name, nextval('{tokens}'), case when mine then $2::text end, case when mine then $3::text end, case when mine then $4::text end,
		clock_timestamp(),
		clock_timestamp() + case when mine then greatest($5::bigint, $6::bigint) else 0 end * interval '1 microsecond',
		case when mine then clock_timestamp() + $6::bigint * interval '1 microsecond' end
	from missing order by name on conflict do nothing returning name, token, nonce
), mine as (
	select name, token from own union all select name, token from taken union all select name, token from made where nonce = $4::text
)
select true, name, token, '', '', 0::bigint, false from mine
union all
select false, coalesce(t.name, ''), coalesce(t.token, 0), coalesce(t.holder, ''), coalesce(t.meta, ''),
	coalesce((extract(epoch from t.expires_at - clock_timestamp()) * 1000000)::bigint, 0), exists (select from missing)
from (select) as one left join (
	select t.* from slots s join {table} t on t.name = s.name order by t.expires_at limit 1
) t on true where not exists (select from mine)`

// chooseSQLite chooses for acquireSQLite, first of all what the claimer has already.
const chooseSQLite = `insert into {table} (name, token, holder, meta, nonce, acquired_at, expires_at, keep_until)
select s.value, max({now} * 1000, (select token + 1 from {tokens})), $2, $3, $4, {now}, {now} + max($5, $6) / 1000 + 1,
	{now} + $6 / 1000 + ($6 > 0)
from json_each($1) s left join {table} t on t.name = s.value
where t.name is null or t.expires_at <= {now} or t.nonce is $4
order by t.nonce is $4 desc, s.key limit 1
` + takeSQLite + `
returning true, name, token, '', '', 0, false`

const soonestSQLite = `select name, token, coalesce(holder, ''), coalesce(meta, ''), (expires_at - {now}) * 1000
from {table} where name in (select value from json_each($1)) order by expires_at limit 1`

// TryAny implements [Chooser]: one statement, and another for who is refused on SQLite, as in TryAcquire.
func (s *SQL[T]) TryAny(ctx context.Context, c Claim, names []string) (g Grant, err error) {
	if s.err != nil {
		return g, s.err
	}
	text, err := json.Marshal(names)
	if err != nil {
		return g, err
	}
	missed := true // the rows, which somebody else was making
	for try := 1; missed && try <= contended && err == nil; try++ {
		err = s.again(ctx, func() error {
			missed = false
			var remaining int64
			row := s.db.Conn().QueryRow(ctx, s.sql.choose,
				string(text), c.Holder, c.Meta, c.Nonce, c.TTL.Microseconds(), c.AtLeast.Microseconds())
			err := row.Scan(&g.Held, &g.Name, &g.Token, &g.Holder, &g.Meta, &remaining, &missed)
			g.Remaining = time.Duration(remaining) * time.Microsecond
			if errors.Is(err, tx.ErrNoRows) {
				return s.soonest(ctx, string(text), &g)
			}
			return err
		})
	}
	if s.db.Classify(err) == tx.Retryable && s.sql.soonest != "" && s.soonest(ctx, string(text), &g) == nil { // as in TryAcquire
		return g, nil
	}
	if g.Held {
		g = Grant{Held: true, Name: g.Name, Token: g.Token, Nonce: c.Nonce}
	}
	return g, err
}

// soonest looks which of names runs out first.
func (s *SQL[T]) soonest(ctx context.Context, names string, g *Grant) error {
	var remaining int64
	err := s.db.Conn().QueryRow(ctx, s.sql.soonest, names).Scan(&g.Name, &g.Token, &g.Holder, &g.Meta, &remaining)
	g.Remaining = time.Duration(remaining) * time.Microsecond
	return err
}
