-- +goose Up
-- Times are milliseconds since 1970, UTC.
create table if not exists "idem_key" (
	k           blob primary key,
	scope       text not null,
	name        text not null,
	state       integer not null,
	fp          blob not null,
	nonce       integer not null,
	epoch       integer not null default 0,
	lease_until integer,
	attempts    integer not null default 1,
	codec       integer not null default 0,
	status      integer not null default 0,
	body        blob,
	created_at  integer not null default (cast((julianday('now') - 2440587.5) * 86400000 as integer)),
	expires_at  integer not null
);
create index if not exists "idem_key_expires_at" on "idem_key" (expires_at);
