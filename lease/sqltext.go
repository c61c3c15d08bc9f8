package lease

// acquirePostgres looks without locking while the lease is alive. One that ran out and whose row is locked has a transaction
// open that it guards: it is passed over, and told as held. The claimer's own nonce is granted again, for a request that
// comes twice. The last arm reads the snapshot of the statement, so what it says of the holder is a hint.
const acquirePostgres = `with own as (
	select token from {table} where name = $1::text and nonce = $4::text
), free as (
	select name from {table}
	where name = $1::text and expires_at <= clock_timestamp() and not exists (select from own)
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
	where not exists (select from {table} where name = $1::text)
	on conflict do nothing returning token
), mine as (
	select token from own union all select token from taken union all select token from made
)
select true, token, '', '', 0::bigint from mine
union all
select false, token, coalesce(holder, ''), coalesce(meta, ''),
	(extract(epoch from expires_at - clock_timestamp()) * 1000000)::bigint
from {table} where name = $1::text and not exists (select from mine)`

const lookPostgres = `select token, coalesce(holder, ''), coalesce(meta, ''),
	(extract(epoch from expires_at - clock_timestamp()) * 1000000)::bigint
from {table} where name = $1::text`

// renewPostgres does not ask whether the lease has run out: if token and nonce are those of the row, nobody came between. It
// changes no column of a key, so that it does not wait for a guard.
const renewPostgres = `update {table} t set expires_at = greatest(clock_timestamp() + r.ttl * interval '1 microsecond', t.keep_until)
from jsonb_to_recordset($1::jsonb) as r(name text, token bigint, nonce text, ttl bigint)
where t.name = r.name and t.token = r.token and t.nonce = r.nonce
returning t.nonce, t.resign`

// releasePostgres leaves the token alone, so that it waits for no guard either.
const releasePostgres = `update {table} set nonce = null, holder = null, meta = null, resign = false,
	expires_at = greatest(clock_timestamp(), keep_until), {notify}
where name = $1::text and nonce = $2::text`

// guardPostgres takes the weakest lock that a change of a key must wait for.
const guardPostgres = `select 1 from {table} where name = $1::text and token = $2::bigint and nonce = $3::text for key share`

// oldPostgres tells of a row that is not the acquisition's whether it is one from before it: tokens rise. At READ COMMITTED a statement
// sees all that was committed.
const oldPostgres = `select current_setting('transaction_isolation') in ('repeatable read', 'serializable')
	and coalesce((select token from {table} where name = $1::text), 0) < $2::bigint`

// acquireSQLite has one writer, who does not take turns with himself: a guard's transaction has ended when this runs. Tokens begin
// at the clock's microseconds, and after a deletion above that of the row. Times are rounded up to the next millisecond.
const acquireSQLite = `insert into {table} (name, token, holder, meta, nonce, acquired_at, expires_at, keep_until)
values ($1, max({now} * 1000, (select token + 1 from {tokens})), $2, $3, $4, {now}, {now} + max($5, $6) / 1000 + 1,
	{now} + $6 / 1000 + ($6 > 0))
` + takeSQLite + `
returning true, token, '', '', 0`

const takeSQLite = `on conflict (name) do update set
	token = case when nonce is excluded.nonce then token else max(token + 1, excluded.token) end,
	holder = excluded.holder, meta = excluded.meta, nonce = excluded.nonce, acquired_at = max(acquired_at, excluded.acquired_at),
	expires_at = excluded.expires_at, keep_until = excluded.keep_until, resign = false
where expires_at <= {now} or nonce is excluded.nonce`

const lookSQLite = `select token, coalesce(holder, ''), coalesce(meta, ''), (expires_at - {now}) * 1000
from {table} where name = $1`

const renewSQLite = `update {table} set expires_at = max({now} + r.ttl / 1000 + 1, coalesce(keep_until, 0))
from (
	select json_extract(value, '$.name') as name, json_extract(value, '$.token') as token, json_extract(value, '$.nonce') as nonce,
		json_extract(value, '$.ttl') as ttl from json_each($1)
) r
where {table}.name = r.name and {table}.token = r.token and {table}.nonce = r.nonce
returning {table}.nonce, {table}.resign`

const releaseSQLite = `update {table} set nonce = null, holder = null, meta = null, resign = false,
	expires_at = max({now}, coalesce(keep_until, 0))
where name = $1 and nonce = $2`

const guardSQLite = `select 1 from {table} where name = $1 and token = $2 and nonce = $3`
