-- +goose Up
-- Who waits for a lease, in turn. Times are milliseconds since 1970, UTC.
create table if not exists "lease_waiter" (
	ticket     integer primary key autoincrement,
	name       text not null,
	waiter     text not null,
	expires_at integer not null,
	unique (name, waiter)
);
