-- +goose Up
-- What was run of each job: a slot is an instant of its schedule.
create table if not exists "lease_slot" (
	job         text not null,
	slot        timestamptz not null,
	state       text not null,                                    -- running, left (to another run), done, failed, passed (before the job was first seen)
	lease       text not null,                                    -- that which a run holds
	token       bigint not null,
	nonce       text not null,                                    -- of the run that began it last; only that one can end it
	attempts    integer not null,                                 -- how many runs began it
	holder      text,
	started_at  timestamptz not null,
	finished_at timestamptz,
	error       text,
	primary key (job, slot)
);
create index if not exists "lease_slot_open" on "lease_slot" (job, slot) where state in ('running', 'left');
