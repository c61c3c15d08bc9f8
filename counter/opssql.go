package counter

import (
	"strings"

	"github.com/holdfast-go/holdfast/tx"
)

// opsSQL are the statements of one table of operations.
type opsSQL struct {
	table string
	mark  string // operations of a JSON array that are not known
	known string
	drop  string
	sweep string
}

const (
	markPostgres = `with holdfast_fresh as (
	insert into {ops} (scope, name, op, delta, expires_at)
	select $1::text, $2::text, x.op, x.delta, clock_timestamp() + $3::bigint * interval '1 microsecond'
	from jsonb_to_recordset($4::jsonb) as x(op text, delta bigint) order by x.op
	on conflict do nothing returning op
)
select op from holdfast_fresh`

	markSQLite = `insert into {ops} (scope, name, op, delta, expires_at)
select $1, $2, json_extract(value, '$.op'), json_extract(value, '$.delta'), {now} + $3 / 1000 from json_each($4) where true
on conflict do nothing returning op`

	knownSQL = `select delta from {ops} where scope = $1 and name = $2 and op = $3`
	dropSQL  = `delete from {ops} where scope = $1 and name = $2 and op = $3`

	sweepPostgres = `delete from {ops} where ctid = any(array(
	select ctid from {ops} where expires_at <= clock_timestamp() order by expires_at limit $1::bigint for update skip locked))`

	sweepSQLite = `delete from {ops} where (scope, name, op) in (
	select scope, name, op from {ops} where expires_at <= {now} order by expires_at limit $1)`
)

func newOpsSQL(d *tx.Dialect, schema, table string) opsSQL {
	quoted := d.Table(schema, table)
	in := strings.NewReplacer("{ops}", quoted, "{now}", d.Now).Replace
	s := opsSQL{table: quoted, mark: in(markPostgres), known: in(knownSQL), drop: in(dropSQL), sweep: in(sweepPostgres)}
	if d == tx.SQLite {
		s.mark, s.sweep = in(markSQLite), in(sweepSQLite)
	}
	return s
}
