package idem

// Times are milliseconds, rounded up to the next. There is one writer, who does not take turns with himself: a transaction that
// guards a key has ended when another writes.

const columnsSQLite = `k, scope, name, state, fp, nonce, epoch, attempts, coalesce(lease_until - {now}, 0) * 1000,
	state = 4 or expires_at <= {now}, codec, status, body, input, steps, coalesce(note, ''), created_at * 1000`

// epochSQLite begins at the clock's microseconds, and after a deletion above that of the row.
const epochSQLite = `max({now} * 1000, (select epoch + 1 from {sequence}))`

// never is a time that does not come: an open key does not expire.
const never = `9223372036854775807`

const setAnswerSQLite = `update {table} set state = $4, codec = $5, status = $6, body = $7, expires_at = {now} + $8 / 1000,
	lease_until = null, input = null, steps = null, note = null, waiters = false
where k = $1 and nonce = $2 and epoch = $3 and state = 1 returning 1`

const listSQLite = `select t.k, t.scope, t.name, t.state, t.fp, t.nonce, t.epoch, t.attempts,
	coalesce(t.lease_until - {now}, 0) * 1000, t.state = 4 or t.expires_at <= {now},
	t.codec, t.status, null, null, t.steps, coalesce(t.note, ''), t.created_at * 1000
from {table} t
where ($1 is null or t.k = $1) and ($2 = '' or t.scope = $2) and ($3 = '' or t.name = $3)
	and t.state in (select value from json_each($4))
	and t.created_at <= {now} - $5 / 1000 and (t.created_at, t.k) > ($6 / 1000, $7)`

var leaseSQLite = leaseSQL{
	claim: `insert into {table} (k, scope, name, state, fp, nonce, epoch, lease_until, input, expires_at)
values ($1, $2, $3, 1, $4, $5, {epoch}, {now} + $6 / 1000 + 1, $7, ` + never + `)
on conflict (k) do nothing returning {columns}`,
	look: `select {columns} from {table} where k = $1`,
	take: `update {table} set state = 1, nonce = $2, epoch = max(epoch + 1, {epoch}), lease_until = {now} + $6 / 1000 + 1, note = null,
	attempts = case when state in (2, 3, 4) then 1 else attempts + 1 end,
	fp = case when state in (2, 3, 4) then $7 else fp end, input = case when state in (2, 3, 4) then $8 else input end,
	created_at = case when state in (2, 3, 4) then {now} else created_at end,
	codec = 0, status = 0, body = null, expires_at = ` + never + `
where k = $1 and nonce = $3 and (
	state in (1, 5, 6) and lease_until <= {now} or state in (5, 6) and $4
	or $5 and (state = 4 or state in (2, 3) and expires_at <= {now}))
returning {columns}`,
	takeDue: `update {table} set state = 1, nonce = random(), epoch = max(epoch + 1, {epoch}), note = null,
	lease_until = {now} + $3 / 1000 + 1, attempts = attempts + 1
where k in (
	select k from {table} where state in (1, 5, 6) and lease_until <= {now} and input is not null and name in (select value from json_each($1))
		and state in (select value from json_each($4))
	order by created_at, k limit $2
) returning {columns}`,
	renew: `update {table} set lease_until = {now} + $2 / 1000 + 1
from (
	select json_extract(value, '$.id') as id, json_extract(value, '$.nonce') as nonce, json_extract(value, '$.epoch') as epoch
	from json_each($1)
) r
where {table}.state in (1, 5, 6) and hex({table}.k) = upper(r.id) and {table}.nonce = r.nonce and {table}.epoch = r.epoch and {table}.state = 1
returning {table}.nonce, true`,
	mark: markSQL,
	park: `update {table} set state = $4, lease_until = {now} + $5 / 1000, note = $6, attempts = case when $7 then 0 else attempts end
where k = $1 and nonce = $2 and epoch = $3 and state = 1`,
	complete: setAnswerSQLite,
	done:     `select exists (select 1 from {table} where k = $1 and nonce = $2 and state in (2, 3))`,
	finish:   setAnswerSQLite,
	guard:    `select 1 from {table} where k = $1 and nonce = $2 and epoch = $3 and state = 1`,
	settled:  `select state, nonce from {table} where k = $1`,
	release:  releaseLeasedSQL,
	announce: announceSQL,
	list:     listSQLite + pageOfList,
	listOpen: listSQLite + onlyOpen + pageOfList,
}
