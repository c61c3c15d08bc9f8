-- +goose Up
create table if not exists "counter_op" (
	scope      text not null,       -- the table and column of the counter
	name       text not null,       -- the counter
	op         text not null,       -- the operation that was applied
	delta      bigint not null,
	expires_at timestamptz not null,
	primary key (scope, name, op)
);
create index if not exists "counter_op_expires_at" on "counter_op" (expires_at);
