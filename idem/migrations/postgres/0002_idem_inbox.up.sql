-- +goose Up
create table if not exists "idem_inbox" (
	consumer    text not null,
	message_id  text not null,
	received_at timestamptz not null default clock_timestamp(),
	expires_at  timestamptz not null,
	primary key (consumer, message_id)
);
create index if not exists "idem_inbox_expires_at" on "idem_inbox" (expires_at);
