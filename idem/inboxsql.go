package idem

import "github.com/holdfast-go/holdfast/tx"

// inboxSQL are the statements of one inbox table.
type inboxSQL struct {
	mark   string // one message, unless it is known or being handled
	many   string // all messages of a JSON array that are not known, in the order of the index
	unmark string
	sweep  string
}

const markPostgres = `with lock as materialized (
	select pg_try_advisory_xact_lock({lock}) as free
	where not exists (select from {table} where consumer = $2::text and message_id = $3::text)
), mark as (
	insert into {table} (consumer, message_id, expires_at)
	select $2::text, $3::text, clock_timestamp() + $4::bigint * interval '1 microsecond' from lock where free
	on conflict do nothing returning txid_current() % 4294967296 as by
)
select coalesce((select free from lock), true), exists (select from mark), coalesce((select by from mark),
	(select xmin::text::bigint from {table} where consumer = $2::text and message_id = $3::text), 0)`

// manyPostgres sorts, so that two batches with common messages do not deadlock.
const manyPostgres = `with mark as (
	insert into {table} (consumer, message_id, expires_at)
	select $1::text, id, clock_timestamp() + $2::bigint * interval '1 microsecond'
	from jsonb_array_elements_text($3::jsonb) as id order by id
	on conflict do nothing returning message_id
)
select coalesce(jsonb_agg(message_id), '[]')::text from mark`

const markSQLite = `insert into {table} (consumer, message_id, expires_at) values ($1, $2, {now} + $3 / 1000)
on conflict do nothing`

const manySQLite = `insert into {table} (consumer, message_id, expires_at)
select $1, value, {now} + $2 / 1000 from json_each($3) where true
on conflict do nothing returning message_id`

const unmarkSQL = `delete from {table} where consumer = $1 and message_id = $2`

const sweepInboxPostgres = `delete from {table} where ctid = any(array(
	select ctid from {table} where expires_at <= clock_timestamp() order by expires_at limit $1::bigint for update skip locked))`

const sweepInboxSQLite = `delete from {table} where (consumer, message_id) in (
	select consumer, message_id from {table} where expires_at <= {now} order by expires_at limit $1)`

func newInboxSQL(d *tx.Dialect, schema, table string) inboxSQL {
	in := inTable(d, schema, table)
	if d == tx.SQLite {
		return inboxSQL{mark: in(markSQLite), many: in(manySQLite), unmark: in(unmarkSQL), sweep: in(sweepInboxSQLite)}
	}
	return inboxSQL{mark: in(markPostgres), many: in(manyPostgres), unmark: in(unmarkSQL), sweep: in(sweepInboxPostgres)}
}

// mark is one message on its way into the inbox.
type mark struct {
	stmt   *tx.Stmt
	sqlite bool
	free   bool  // nobody else is handling it, or it is known
	fresh  bool  // it is new, and marked now
	by     int64 // the transaction that marked it, on PostgreSQL; 0 if it is not visible yet
}

// lead returns the statement that marks it. On SQLite the count of rows is the answer, and no other handler is at work,
// since the transaction is the writer.
func (m *mark) lead() []*tx.Stmt {
	m.free, m.fresh, m.by = false, false, 0
	return []*tx.Stmt{m.stmt}
}

// settle reads the answer once the statement has run.
func (m *mark) settle() {
	if m.sqlite {
		m.free, m.fresh = true, m.stmt.Affected == 1
	}
}

func (in *Inbox[T]) mark(id string) *mark {
	m := &mark{sqlite: in.db.Dialect() == tx.SQLite}
	ttl := in.o.TTL.Microseconds()
	if m.sqlite {
		m.stmt = &tx.Stmt{SQL: in.sql.mark, Args: []any{in.consumer, id, ttl}}
		return m
	}
	number := Key{Scope: in.consumer, Name: "inbox", Value: id}.ID().lock()
	m.stmt = &tx.Stmt{SQL: in.sql.mark, Args: []any{number, in.consumer, id, ttl}, Dest: []any{&m.free, &m.fresh, &m.by}}
	return m
}
