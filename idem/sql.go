package idem

import (
	"strings"

	"github.com/holdfast-go/holdfast/tx"
)

var keyColumns = []string{
	"k", "scope", "name", "state", "fp", "nonce", "epoch", "lease_until", "attempts", "codec", "status", "body",
	"created_at", "expires_at", "input", "steps", "note", "waiters",
}

// keySQL are the statements of one table. They are made once, so that statement caches see the same text each time.
type keySQL struct {
	// lock takes the advisory lock of a key, or finds it taken, and tells of the table and of the isolation level. It is a
	// statement of its own, so that the next one has a snapshot from after the lock: at READ COMMITTED what the last holder
	// committed is then visible.
	lock string
	// claim inserts a running row where nothing else keeps a second execution out: on SQLite, where it also makes the
	// caller's transaction the writer, and at the isolation levels with one snapshot, where a row that the snapshot
	// misses must fail here rather than after the work. There it takes the lock by itself, and says whether it has it: the
	// statement before may have found it taken just before it was free.
	claim string
	// lookup reads the row.
	lookup string
	// recall reads of the row what a repetition needs, for [row.recalled]. Each column has its price on the server and here, so
	// the numbers are in one.
	recall string
	// insert stores the answer where there is no running row. It fails if another execution has stored one, by the primary
	// key, and if the table is not that of the claim, since the closure changed the search path, by a division by zero.
	insert string
	// complete stores the answer in the running row, in the place of an expired one, or without either. Where another execution
	// has stored one it affects no row, and in another table it fails as insert does.
	complete string
	// release removes the running row of a claim whose work failed.
	release string
	// sweep takes a batch of expired rows: it makes tombstones of answers, and removes the rest. A running row is left alone
	// if it has a lease; without one, nobody is at it. Where that takes two statements, bury is the one for tombstones.
	sweep, bury string
}

// lockPostgres never waits and never fails, so it leaves a transaction of the caller's usable. Where the row is the answer it
// takes no lock, so that none outlives a replay by the time of its rollback, and keeps out whoever comes after a deletion.
const lockPostgres = `select case when not exists (select from {table} where k = $2::bytea{answer}) then pg_try_advisory_xact_lock({lock})::int
	else 2 end, {oid}, current_setting('transaction_isolation') = 'read committed'`

// liveAnswer leaves out the rows that AllowReuse replaces.
const liveAnswer = ` and (state = 1 or state in (2, 3) and expires_at > clock_timestamp())`

const claimPostgres = `with lock as (
	select 1 where current_setting('transaction_isolation') <> 'read committed' and pg_try_advisory_xact_lock({lock})
), claim as (
	insert into {table} (k, scope, name, state, fp, nonce, expires_at)
	select $2::bytea, $3::text, $4::text, 1, $5::bytea, $6::bigint, clock_timestamp() + $7::bigint * interval '1 microsecond'
	from lock where not exists (select from {table} where k = $2::bytea)
	on conflict (k) do nothing
)
select exists (select from lock), coalesce(t.state, 0), t.fp, coalesce(t.nonce, 0), coalesce(t.codec, 0),
	coalesce(t.status, 0), t.body, coalesce(t.expires_at <= clock_timestamp(), false)
from (select $2::bytea as k) c left join {table} t on t.k = c.k`

const lookupPostgres = `select state, fp, nonce, codec, status, body, expires_at <= clock_timestamp() from {table} where k = $1`

const recallPostgres = `select fp, body, state + ((expires_at <= clock_timestamp())::int << 8) + (codec::int << 16) + (status::bigint << 32)
from {table} where k = $1`

const insertPostgres = `insert into {table} (k, scope, name, state, fp, nonce, codec, status, body, expires_at)
values ($1::bytea, $2::text, $3::text, $4::smallint / ({oid} = $11::bigint)::int, $5::bytea, $6::bigint, $7::smallint,
	$8::integer, $9::bytea, clock_timestamp() + $10::bigint * interval '1 microsecond')`

const completePostgres = `insert into {table} as t (k, scope, name, state, fp, nonce, codec, status, body, expires_at)
values ($1::bytea, $2::text, $3::text, $4::smallint / ({oid} = $11::bigint)::int, $5::bytea, $6::bigint, $7::smallint,
	$8::integer, $9::bytea, clock_timestamp() + $10::bigint * interval '1 microsecond')
on conflict (k) do update set state = excluded.state, fp = excluded.fp, nonce = excluded.nonce, codec = excluded.codec,
	status = excluded.status, body = excluded.body, created_at = excluded.created_at, expires_at = excluded.expires_at
where t.state = 1 and t.nonce = excluded.nonce
	or t.nonce = $12::bigint and (t.state = 4 or t.state in (2, 3) and t.expires_at <= clock_timestamp())
returning 1`

const releaseSQL = `delete from {table} where k = $1 and state = 1 and nonce = $2`

// sweepPostgres passes over rows that another sweeper has. $2 is how long a tombstone stands, in microseconds.
const sweepPostgres = `with due as materialized (
	select k, state in (1, 4) or expires_at + $2::bigint * interval '1 microsecond' <= clock_timestamp() as over from {table}
	where expires_at <= clock_timestamp() and lease_until is null
	order by expires_at limit $1::bigint for update skip locked
), buried as (
	update {table} t set state = 4, codec = 0, status = 0, body = null, expires_at = t.expires_at + $2::bigint * interval '1 microsecond'
	from due where t.k = due.k and not due.over
), gone as (
	delete from {table} t using due where t.k = due.k and due.over
)
select count(*), count(*) filter (where over) from due`

const claimSQLite = `insert into {table} (k, scope, name, state, fp, nonce, expires_at)
values ($1, $2, $3, 1, $4, $5, {now} + $6 / 1000)
on conflict (k) do nothing`

const lookupSQLite = `select state, fp, nonce, codec, status, body, expires_at <= {now} from {table} where k = $1`

const recallSQLite = `select fp, body, state + ((expires_at <= {now}) << 8) + (codec << 16) + (status << 32) from {table} where k = $1`

const completeSQLite = `insert into {table} as t (k, scope, name, state, fp, nonce, codec, status, body, expires_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, {now} + $10 / 1000)
on conflict (k) do update set state = excluded.state, fp = excluded.fp, nonce = excluded.nonce, codec = excluded.codec,
	status = excluded.status, body = excluded.body, created_at = excluded.created_at, expires_at = excluded.expires_at
where t.state = 1 and t.nonce = excluded.nonce
	or t.nonce = $11 and (t.state = 4 or t.state in (2, 3) and t.expires_at <= {now})
returning 1`

const sweepSQLite = `delete from {table} where k in (
	select k from (
		select k, state, expires_at from {table}
		where expires_at <= {now} and lease_until is null order by expires_at limit $1
	) where state in (1, 4) or expires_at + $2 / 1000 <= {now})`

const burySQLite = `update {table} set state = 4, codec = 0, status = 0, body = null, expires_at = expires_at + $2 / 1000
where k in (select k from {table} where expires_at <= {now} and state in (2, 3) order by expires_at limit $1)`

func newKeySQL(d *tx.Dialect, schema, table string, reuse bool) keySQL {
	in := inTable(d, schema, table)
	answer := ""
	if reuse {
		answer = liveAnswer
	}
	if d == tx.SQLite {
		return keySQL{
			claim: in(claimSQLite), lookup: in(lookupSQLite), recall: in(recallSQLite), complete: in(completeSQLite),
			release: in(releaseSQL), sweep: in(sweepSQLite), bury: in(burySQLite),
		}
	}
	return keySQL{
		lock: in(strings.Replace(lockPostgres, "{answer}", answer, 1)), claim: in(claimPostgres), lookup: in(lookupPostgres), recall: in(recallPostgres),
		insert: in(insertPostgres), complete: in(completePostgres), release: in(releaseSQL), sweep: in(sweepPostgres),
	}
}

// inTable returns a function that puts the names of a table into a statement. {lock} is the number of an advisory lock:
// bits of the key and the identity of the table, which is the same however callers spell its name or set their search
// path. Two keys that share a number, which is a matter of 2^-64, refuse each other while they run, and no more.
func inTable(d *tx.Dialect, schema, table string) func(query string) string {
	name := d.Table(schema, table)
	literal := "'" + strings.ReplaceAll(name, "'", "''") + "'"
	return strings.NewReplacer(
		"{table}", name,
		"{now}", d.Now,
		"{oid}", literal+"::regclass::oid::bigint",
		"{lock}", "$1::bigint # ("+literal+"::regclass::oid::bigint * 2654435761)",
	).Replace
}
