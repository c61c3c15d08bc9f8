-- +goose Up
-- Times are milliseconds since 1970, UTC.
create table if not exists "idem_inbox" (
	consumer    text not null,
	message_id  text not null,
	received_at integer not null default (cast((julianday('now') - 2440587.5) * 86400000 as integer)),
	expires_at  integer not null,
	primary key (consumer, message_id)
) without rowid;
create index if not exists "idem_inbox_expires_at" on "idem_inbox" (expires_at);
