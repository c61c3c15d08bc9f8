-- +goose Up
create table if not exists "counter" (
	name  text not null,
	slot  integer not null,
	slots integer not null default 1,
	n     integer not null,
	primary key (name, slot)
) without rowid;
