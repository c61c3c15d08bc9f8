-- +goose Up
-- Times are milliseconds since 1970, UTC.
create table if not exists "lease" (
	name        text primary key,
	token       integer not null,
	nonce       text,
	holder      text,
	meta        text,
	acquired_at integer not null,
	expires_at  integer not null,
	keep_until  integer,
	resign      boolean not null default false,
	unique (name, token)
) without rowid;
