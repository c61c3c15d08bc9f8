package lease

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/tx"
)

// TryInTurn implements [Queuer]: one statement on PostgreSQL, and one transaction on SQLite. It writes when a place is taken, kept for
// half of its time, or given up.
func (s *SQL[T]) TryInTurn(ctx context.Context, c Claim, w Waiter) (g Grant, err error) {
	if s.err != nil {
		return g, s.err
	}
	ask := s.inTurnAmong
	if s.db.Dialect() == tx.SQLite {
		ask = s.inTurnAlone
	}
	err = s.again(ctx, func() error {
		g = Grant{Name: c.Name}
		return ask(ctx, c, w, &g)
	})
	if s.db.Classify(err) == tx.Retryable && s.describe(ctx, &g) == nil {
		return g, nil
	}
	if g.Held {
		g = Grant{Held: true, Name: c.Name, Token: g.Token, Nonce: c.Nonce}
	}
	return g, err
}

// inTurnPostgres is acquirePostgres with a queue. A place that is being taken at the same moment is not seen: those two came at the
// same time.
const inTurnPostgres = `with own as (
	select token from {table} where name = $1::text and nonce = $4::text
), place as (
	select ticket, expires_at from {waiters} where name = $1::text and waiter = $7::text and expires_at > clock_timestamp()
), ahead as (
	select count(*) as n from {waiters} where name = $1::text and waiter <> $7::text and expires_at > clock_timestamp()
		and ticket < coalesce((select ticket from place), 9223372036854775807)
), free as (
	select name from {table}
	where name = $1::text and expires_at <= clock_timestamp() and not exists (select from own) and (select n from ahead) = 0
	for update skip locked
), taken as (
	update {table} t set token = greatest(t.token + 1, nextval('{tokens}')), holder = $2::text, meta = $3::text, nonce = $4::text,
		acquired_at = clock_timestamp(), expires_at = clock_timestamp() + greatest($5::bigint, $6::bigint) * interval '1 microsecond',
		keep_until = clock_timestamp() + $6::bigint * interval '1 microsecond', resign = false
	from free where t.name = free.name returning t.token
), made as (
	insert into {table} (name, token, holder, meta, nonce, acquired_at, expires_at, keep_until)
	select $1::text, nextval('{tokens}'), $2::text, $3::text, $4::text, clock_timestamp(),
		clock_timestamp() + greatest($5::bigint, $6::bigint) * interval '1 microsecond', clock_timestamp() + $6::bigint * interval '1 microsecond'
	where not exists (select from {table} where name = $1::text) and (select n from ahead) = 0
	on conflict do nothing returning token
), mine as (
	select token from own union all select token from taken union all select token from made
), queued as (
	insert into {waiters} (name, waiter, expires_at)
	select $1::text, $7::text, clock_timestamp() + $8::bigint * interval '1 microsecond'
	where $7::text <> '' and not exists (select from mine) and not exists (select from place)
	on conflict (name, waiter) do update set ticket = excluded.ticket, expires_at = excluded.expires_at
), kept as (
	update {waiters} set expires_at = clock_timestamp() + $8::bigint * interval '1 microsecond'
	where name = $1::text and waiter = $7::text and not exists (select from mine)
		and exists (select from place where expires_at < clock_timestamp() + $8::bigint * interval '1 microsecond' / 2)
), gone as (
	delete from {waiters} where name = $1::text and (waiter = $7::text or expires_at <= clock_timestamp()) and exists (select from mine)
)
select true, token, '', '', 0::bigint, 0::bigint from mine
union all
select false, coalesce(t.token, 0), coalesce(t.holder, ''), coalesce(t.meta, ''),
	coalesce((extract(epoch from t.expires_at - clock_timestamp()) * 1000000)::bigint, 0), (select n from ahead)
from (select) as one left join {table} t on t.name = $1::text where not exists (select from mine)`

func (s *SQL[T]) inTurnAmong(ctx context.Context, c Claim, w Waiter, g *Grant) error {
	var remaining int64
	row := s.db.Conn().QueryRow(ctx, s.sql.inTurn, c.Name, c.Holder, c.Meta, c.Nonce, c.TTL.Microseconds(), c.AtLeast.Microseconds(),
		w.ID, w.TTL.Microseconds())
	err := row.Scan(&g.Held, &g.Token, &g.Holder, &g.Meta, &remaining, &g.Ahead)
	g.Remaining = time.Duration(remaining) * time.Microsecond
	return err
}

const (
	goneSQLite  = `delete from {waiters} where name = $1 and expires_at <= {now}`
	placeSQLite = `insert into {waiters} (name, waiter, expires_at) values ($1, $2, {now} + $3 / 1000 + 1)
		on conflict (name, waiter) do update set expires_at = excluded.expires_at`
	aheadSQLite = `select count(*) from {waiters} where name = $1 and waiter <> $2
		and ticket < coalesce((select ticket from {waiters} where name = $1 and waiter = $2), 9223372036854775807)`
	leaveSQL = `delete from {waiters} where name = $1 and waiter = $2`
)

func (s *SQL[T]) inTurnAlone(ctx context.Context, c Claim, w Waiter, g *Grant) error {
	ctx, cancel := apart(ctx)
	defer cancel()
	return s.db.Do(ctx, func(ctx context.Context, t T) error {
		conn := s.db.Tx(t)
		if _, err := conn.Exec(ctx, s.sql.gone, c.Name); err != nil {
			return err
		}
		if w.ID != "" {
			if _, err := conn.Exec(ctx, s.sql.place, c.Name, w.ID, w.TTL.Microseconds()); err != nil {
				return err
			}
		}
		*g = Grant{Name: c.Name}
		if err := conn.QueryRow(ctx, s.sql.ahead, c.Name, w.ID).Scan(&g.Ahead); err != nil {
			return err
		}
		if g.Ahead == 0 {
			var none int64
			row := conn.QueryRow(ctx, s.sql.acquire, c.Name, c.Holder, c.Meta, c.Nonce, c.TTL.Microseconds(), c.AtLeast.Microseconds())
			err := row.Scan(&g.Held, &g.Token, &g.Holder, &g.Meta, &none)
			if err == nil {
				_, err = conn.Exec(ctx, s.sql.leave, c.Name, w.ID)
			}
			if !errors.Is(err, tx.ErrNoRows) {
				return err
			}
		}
		return look(ctx, conn, s.sql.look, g)
	})
}

// Leave implements [Queuer]: one statement.
func (s *SQL[T]) Leave(ctx context.Context, name, id string) error {
	if s.err != nil {
		return s.err
	}
	return s.again(ctx, func() error {
		_, err := s.db.Conn().Exec(ctx, s.sql.leave, name, id)
		return err
	})
}

// apart returns a context that ends with ctx and is in no transaction of the caller's.
func apart(ctx context.Context) (context.Context, context.CancelFunc) {
	own, cancel := context.WithCancelCause(context.Background())
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	return own, func() {
		stop()
		cancel(nil)
	}
}
