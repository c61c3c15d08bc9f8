-- +goose Up
-- For databases that leases guard without being in them.
create table if not exists "lease_high" (
	name  text primary key,
	token bigint not null,                                        -- the highest that has written
	nonce text not null
);
