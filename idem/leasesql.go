package idem

import (
	"strings"

	"github.com/holdfast-go/holdfast/tx"
)

// NotifyChannel is the channel on which PostgreSQL tells of an answer that somebody waits for: see [Store].Announce. The payload is
// the ID of the key, in hex.
const NotifyChannel = "holdfast_idem"

// leaseSQL are the statements of work that leaves the database. An open key has a lease_until, a final one has none.
type leaseSQL struct {
	claim    string
	look     string // what claim finds where it finds no answer of its own, on SQLite
	take     string
	takeDue  string
	renew    string
	mark     string
	park     string
	complete string // on its own
	done     string // whether it had been before, on SQLite
	finish   string // as the last of a business transaction
	guard    string
	settled  string // waits for the end of a transaction that guards, and tells what it left
	release  string
	announce string
	list     string // all, by age
	listOpen string // the same of keys that are open
}

// {columns} are those of a record in the order of [scanRecord].
const columnsPostgres = `t.k, t.scope, t.name, t.state, t.fp, t.nonce, t.epoch, t.attempts,
	coalesce((extract(epoch from t.lease_until - clock_timestamp()) * 1000000)::bigint, 0), t.state = 4 or t.expires_at <= clock_timestamp(),
	t.codec, t.status, t.body, t.input, t.steps, coalesce(t.note, ''), (extract(epoch from t.created_at) * 1000000)::bigint`

// {epoch} takes the next number, and lets the sequence follow the clock: epochs go on rising after the restore of a backup, in which
// the sequence was behind, and after a step back of the clock.
const epochPostgres = `setval({sequence}, greatest(nextval({sequence}), (extract(epoch from clock_timestamp()) * 1000000)::bigint))`

// claimLeasedPostgres writes nothing where there is a row. A transaction that does the same operation in one commit has no row yet,
// and a lock instead.
const claimLeasedPostgres = `with lock as (
	select pg_try_advisory_xact_lock({lock}) as free where not exists (select from {table} where k = $2::bytea)
), made as (
	insert into {table} as t (k, scope, name, state, fp, nonce, epoch, lease_until, input, expires_at)
	select $2::bytea, $3::text, $4::text, 1, $5::bytea, $6::bigint, {epoch},
		clock_timestamp() + $7::bigint * interval '1 microsecond', $8::bytea, 'infinity'
	from lock where free
	on conflict (k) do nothing returning {columns}
)
select * from made
union all
select {columns} from {table} t where t.k = $2::bytea`

// takePostgres waits for nobody: who guards the key, or is taking it, has it.
const takePostgres = `with own as (
	select k from {table} where k = $1::bytea and nonce = $2::bigint and state = 1
), was as (
	select t.k, t.state in (2, 3, 4) as over from {table} t
	where t.k = $1::bytea and t.nonce = $3::bigint and not exists (select from own) and (
		t.state in (1, 5, 6) and t.lease_until <= clock_timestamp() or t.state in (5, 6) and $4::boolean
		or $5::boolean and (t.state = 4 or t.state in (2, 3) and t.expires_at <= clock_timestamp()))
	for no key update skip locked
), taken as (
	update {table} t set state = 1, nonce = $2::bigint, epoch = greatest(t.epoch + 1, {epoch}),
		lease_until = clock_timestamp() + $6::bigint * interval '1 microsecond', note = null,
		attempts = case when was.over then 1 else t.attempts + 1 end,
		fp = case when was.over then $7::bytea else t.fp end, input = case when was.over then $8::bytea else t.input end,
		created_at = case when was.over then clock_timestamp() else t.created_at end,
		codec = 0, status = 0, body = null, expires_at = 'infinity'
	from was where t.k = was.k returning {columns}
)
select * from taken
union all
select {columns} from {table} t, own where t.k = own.k`

const takeDuePostgres = `with due as (
	select k from {table} where state in (1, 5, 6) and lease_until <= clock_timestamp() and input is not null
		and name in (select jsonb_array_elements_text($1::jsonb))
		and state in (select jsonb_array_elements($4::jsonb)::text::smallint)
	order by created_at, k limit $2::bigint for no key update skip locked
)
update {table} t set state = 1, nonce = $5::bigint # t.nonce, epoch = greatest(t.epoch + 1, {epoch}), note = null,
	lease_until = clock_timestamp() + $3::bigint * interval '1 microsecond', attempts = t.attempts + 1
from due where t.k = due.k returning {columns}`

// renewPostgres passes over rows that are locked, so that one transaction does not keep the leases of all others from being
// renewed.
const renewLeasedPostgres = `with asked as (
	select decode(id, 'hex') as k, nonce, epoch from jsonb_to_recordset($1::jsonb) as r(id text, nonce bigint, epoch bigint)
), free as (
	select t.k from {table} t join asked a on t.k = a.k and t.nonce = a.nonce and t.epoch = a.epoch
	where t.state = 1 for no key update of t skip locked
), renewed as (
	update {table} t set lease_until = clock_timestamp() + $2::bigint * interval '1 microsecond' from free where t.k = free.k returning t.k
)
select a.nonce, exists (select from renewed r where r.k = a.k) from asked a
join {table} t on t.k = a.k and t.nonce = a.nonce and t.epoch = a.epoch and t.state = 1`

const markSQL = `update {table} set steps = $4 where k = $1 and nonce = $2 and epoch = $3 and state = 1`

const parkPostgres = `update {table} t set state = $4::smallint, lease_until = clock_timestamp() + $5::bigint * interval '1 microsecond', note = $6::text,
	{told}, attempts = case when $7::boolean then 0 else t.attempts end
where t.k = $1::bytea and t.nonce = $2::bigint and t.epoch = $3::bigint and t.state = 1`

// toldPostgres wakes who has announced to be waiting, with the commit. Nobody else is told: commits that notify wait for each other.
const toldPostgres = `waiters = case when t.waiters then ` + notifyPostgres + ` is null else false end`

const notifyPostgres = `pg_notify('` + NotifyChannel + `', encode(t.k, 'hex'))`

const setAnswerPostgres = `update {table} t set state = $4::smallint, codec = $5::smallint, status = $6::integer, body = $7::bytea,
	expires_at = clock_timestamp() + $8::bigint * interval '1 microsecond', lease_until = null, input = null, steps = null, note = null,
	{told}
where t.k = $1::bytea and t.nonce = $2::bigint and t.epoch = $3::bigint and t.state = 1 returning 1`

const completeLeasedPostgres = `with done as (` + setAnswerPostgres + `)
select exists (select from done) or exists (select from {table} where k = $1::bytea and nonce = $2::bigint and state in (2, 3))`

const guardLeasedPostgres = `select 1 from {table} where k = $1::bytea and nonce = $2::bigint and epoch = $3::bigint and state = 1 for no key update`

const settledPostgres = `select state, nonce from {table} where k = $1::bytea for no key update`

const releaseLeasedSQL = `delete from {table} where k = $1 and nonce = $2 and state = 1 and ($3 = 0 or epoch = $3)`

const releaseLeasedPostgres = `delete from {table} t
where k = $1::bytea and nonce = $2::bigint and state = 1 and ($3::bigint = 0 or epoch = $3::bigint)
returning case when t.waiters then ` + notifyPostgres + ` end`

const announceSQL = `update {table} set waiters = true where k = $1 and state in (1, 5, 6)`

// announcePostgres writes once, however many wait. What ends the execution comes before it and is seen here, or after it and notifies.
// A row that is locked, or has changed since the snapshot, counts as not open.
const announcePostgres = `with free as (
	select k from {table} where k = $1::bytea and state in (1, 5, 6) and not waiters for no key update skip locked
), told as (
	update {table} t set waiters = true from free where t.k = free.k returning t.k
)
select k from told union all select k from {table} where k = $1::bytea and state in (1, 5, 6) and waiters`

const listPostgres = `select t.k, t.scope, t.name, t.state, t.fp, t.nonce, t.epoch, t.attempts,
	coalesce((extract(epoch from t.lease_until - clock_timestamp()) * 1000000)::bigint, 0), t.state = 4 or t.expires_at <= clock_timestamp(),
	t.codec, t.status, null::bytea, null::bytea, t.steps, coalesce(t.note, ''), (extract(epoch from t.created_at) * 1000000)::bigint
from {table} t
where ($1::bytea is null or t.k = $1::bytea) and ($2::text = '' or t.scope = $2::text) and ($3::text = '' or t.name = $3::text)
	and t.state in (select jsonb_array_elements($4::jsonb)::text::smallint)
	and t.created_at <= clock_timestamp() - $5::bigint * interval '1 microsecond'
	and (t.created_at, t.k) > (timestamptz 'epoch' + $6::bigint * interval '1 microsecond', $7::bytea)`

const pageOfList = ` order by t.created_at, t.k limit $8`

const onlyOpen = ` and t.state in (1, 5, 6)`

func newLeaseSQL(d *tx.Dialect, schema, table string) leaseSQL {
	s := leaseSQL{
		claim: claimLeasedPostgres, take: takePostgres, takeDue: takeDuePostgres, renew: renewLeasedPostgres, mark: markSQL,
		park: parkPostgres, complete: completeLeasedPostgres, finish: setAnswerPostgres, guard: guardLeasedPostgres,
		settled: settledPostgres, release: releaseLeasedPostgres, announce: announcePostgres,
		list: listPostgres + pageOfList, listOpen: listPostgres + onlyOpen + pageOfList,
	}
	columns, epoch := columnsPostgres, epochPostgres
	sequence := "'" + strings.ReplaceAll(d.Table(schema, table+"_epoch"), "'", "''") + "'"
	if d == tx.SQLite {
		s, columns, epoch = leaseSQLite, columnsSQLite, epochSQLite
		sequence = d.Table(schema, table+"_epoch")
	}
	in := inTable(d, schema, table)
	for _, text := range []*string{
		&s.claim, &s.look, &s.take, &s.takeDue, &s.renew, &s.mark, &s.park, &s.complete, &s.done, &s.finish, &s.guard, &s.settled,
		&s.release, &s.announce, &s.list, &s.listOpen,
	} {
		*text = in(strings.NewReplacer("{sequence}", sequence).Replace(strings.NewReplacer("{columns}", columns, "{epoch}", epoch, "{told}", toldPostgres).Replace(*text)))
	}
	return s
}
