-- +goose Up
-- What was run of each job: a slot is an instant of its schedule. Times are milliseconds since 1970, UTC.
create table if not exists "lease_slot" (
	job         text not null,
	slot        integer not null,
	state       text not null,
	lease       text not null,
	token       integer not null,
	nonce       text not null,
	attempts    integer not null,
	holder      text,
	started_at  integer not null,
	finished_at integer,
	error       text,
	primary key (job, slot)
) without rowid;
create index if not exists "lease_slot_open" on "lease_slot" (job, slot) where state in ('running', 'left');
