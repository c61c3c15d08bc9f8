-- +goose Up
-- For databases that leases guard without being in them.
create table if not exists "lease_high" (
	name  text primary key,
	token integer not null,
	nonce text not null
) without rowid;
