-- +goose Up
create table if not exists "counter" (
	name  text not null,
	slot  integer not null,          -- from 0 to slots - 1
	slots integer not null default 1, -- the same in each row of a counter, a power of two
	n     bigint not null,
	primary key (name, slot)
);
