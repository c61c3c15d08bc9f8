-- +goose Up
-- Times are milliseconds since 1970, UTC.
create table if not exists "counter_op" (
	scope      text not null,
	name       text not null,
	op         text not null,
	delta      integer not null,
	expires_at integer not null,
	primary key (scope, name, op)
) without rowid;
create index if not exists "counter_op_expires_at" on "counter_op" (expires_at);
