package counter

import (
	"math"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/tx"
)

// A place is where counters are: the table of ours, or a column of the caller's.
type place struct {
	scope string // names it in the table of operations
	key   string // the column, quoted, of the caller's table
	own   bool

	first  string // adds to slot 0, and makes the counter; ours alone
	change string // adds to a slot if the value stays within its bounds
	apart  string // the same, or an error; PostgreSQL, ours alone
	once   string // the same, with operations that are new; PostgreSQL
	read   string
	lock   string // the first slot
	all    string // all slots, once the first is locked
	create string
	write  string
	shrink string // removes slots
	put    string // sets a slot

	largest int64
}

// The conditions are in the statement, so that a refusal is a row that does not come and not an error, which would end a
// transaction on PostgreSQL and make the value a floating-point number on SQLite. CASE keeps the order.
const (
	firstSQL = `insert into {table} as c (name, slot, slots, n) values ($1, 0, 1, cast($2 as bigint))
on conflict (name, slot) do update set n = c.n + excluded.n
where case when not ({fits excluded.n}) then false when c.slots = 1 then true else c.n + excluded.n >= 0 end
returning n, slots`

	changeSQL = `update {table} as c set {n} = {value} + cast($2 as bigint) where {row 1 4}
and case when not ({fits cast($2 as bigint)}) then false when cast($3 as bigint) = 1 or {slots} > 1
	then {value} + cast($2 as bigint) >= 0 else true end
returning {n}, {slots}`

	// apartPostgres fails, by a division by zero, where it changes nothing: a savepoint then gives the lock back that an update keeps of a row
	// that it waited for and did not change.
	apartPostgres = `with holdfast_changed as (` + changeSQL + `)
select coalesce((select n from holdfast_changed), 0), coalesce((select slots from holdfast_changed), 0), 1 / (select count(*) from holdfast_changed)`

	// oncePostgres takes operations first and the counter second, as everything here does: two that meet do not deadlock.
	// It fails, by a division by zero, where the operations are new and the counter was not changed.
	oncePostgres = `with holdfast_fresh as (
	insert into {ops} (scope, name, op, delta, expires_at)
	select $1::text, $2::text, x.op, x.delta, clock_timestamp() + $3::bigint * interval '1 microsecond'
	from jsonb_to_recordset($4::jsonb) as x(op text, delta bigint) order by x.op
	on conflict do nothing returning op, delta
), holdfast_gone as (
	delete from {ops} where scope = $1::text and name = $2::text and op = $5::text
), holdfast_changed as (
	update {table} as c set {n} = {value} + d.delta from (select sum(delta)::bigint as delta from holdfast_fresh having count(*) > 0) d
	where {row 7 7} and case when not ({fits d.delta}) then false when $6::bigint = 1 or {slots} > 1
		then {value} + d.delta >= 0 else true end
	returning c.{n} as n, {slots} as slots
)
select coalesce((select jsonb_agg(op) from holdfast_fresh), '[]')::text, coalesce((select n from holdfast_changed), 0)::bigint,
	coalesce((select slots from holdfast_changed), 0)::bigint,
	1 / (case when exists (select from holdfast_fresh) and not exists (select from holdfast_changed) then 0 else 1 end)`

	readSQL   = `select count(*), cast(coalesce(sum({value}), 0) as text) from {table} as c where {key} = $1`
	lockSQL   = `select {slot}, {slots}, {value} from {table} as c where {row 1 2}{for update}`
	allSQL    = `select slot, slots, n from {table} where name = $1 order by slot{for update}`
	createSQL = `insert into {table} (name, slot, slots, n) values ($1, 0, 1, 0) on conflict do nothing`
	shrinkSQL = `delete from {table} where name = $1 and slot >= $2`
	putSQL    = `insert into {table} (name, slot, slots, n) values ($1, $2, $3, $4)
on conflict (name, slot) do update set slots = excluded.slots, n = excluded.n`
	writeSQL = `update {table} as c set {n} = $2 where {row 1 3}`
)

// fits is whether a sum stays within what the column holds, without making it.
const fits = `case when {d} >= 0 then {value} <= {max} - {d} else {value} >= -{max} - {d} - 1 end`

func ownPlace(d *tx.Dialect, schema, table, ops string) place {
	in := filler(d, d.Table(schema, table), map[string]string{
		"{ops}": ops, "{n}": "n", "{value}": "c.n", "{key}": "c.name", "{slots}": "c.slots", "{slot}": "c.slot",
		"{max}":     "9223372036854775807 / c.slots", // so that their sum fits too
		"{row 1 4}": "c.name = $1 and c.slot = $4", "{row 7 7}": "c.name = $2::text and c.slot = $7",
		"{row 1 2}": "c.name = $1 and c.slot = 0", "{row 1 3}": "c.name = $1 and c.slot = $3",
	})
	return place{
		scope: table, own: true, apart: in(apartPostgres),
		first: in(firstSQL), change: in(returning(changeSQL)), once: in(oncePostgres), read: in(readSQL), lock: in(lockSQL),
		all: in(allSQL), create: in(createSQL), write: in(writeSQL), shrink: in(shrinkSQL), put: in(putSQL), largest: math.MaxInt64,
	}
}

func columnPlace(d *tx.Dialect, c Column, ops string) place {
	key, n := d.Quote(c.Key), d.Quote(c.Column)
	in := filler(d, d.Table(c.Schema, c.Table), map[string]string{
		"{ops}": ops, "{n}": n, "{value}": "coalesce(c." + n + ", 0)", "{key}": "c." + key, "{slots}": "1", "{slot}": "0",
		"{max}":     strconv.FormatInt(c.Max, 10),
		"{row 1 4}": "c." + key + " = $1", "{row 7 7}": "c." + key + " = $7",
		"{row 1 2}": "c." + key + " = $1", "{row 1 3}": "c." + key + " = $1",
	})
	return place{
		scope: d.Table(c.Schema, c.Table) + "." + n, key: d.Table(c.Schema, c.Table) + "." + key,
		change: in(returning(changeSQL)), once: in(oncePostgres), read: in(readSQL), lock: in(lockSQL), write: in(writeSQL),
		largest: c.Max,
	}
}

// returning leaves the alias away in the place where SQLite does not know it.
func returning(sql string) string {
	return strings.Replace(sql, "returning {n}, {slots}", "returning {n}, {own slots}", 1)
}

// filler returns a function that fills in names. A name is quoted and cannot contain a placeholder that comes later, since
// names are filled in last.
func filler(d *tx.Dialect, table string, names map[string]string) func(string) string {
	suffix := ""
	if d.Capabilities.RowLocks {
		suffix = " for update"
	}
	bare := strings.TrimPrefix(names["{slots}"], "c.")
	return func(sql string) string {
		for _, operand := range []string{"excluded.n", "cast($2 as bigint)", "d.delta"} {
			sql = strings.ReplaceAll(sql, "{fits "+operand+"}", strings.ReplaceAll(fits, "{d}", operand))
		}
		pairs := []string{"{table}", table, "{for update}", suffix, "{own slots}", bare}
		for old, name := range names {
			pairs = append(pairs, old, name)
		}
		return strings.NewReplacer(pairs...).Replace(sql)
	}
}
