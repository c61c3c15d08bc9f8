-- +goose Up
-- Times are milliseconds since 1970, UTC.
create table if not exists "lease" (
	name        text primary key,
	token       integer not null,
	nonce       text,
	holder      text,
	meta        text,
	acquired_at integer not null,
	expires_at  integer not null,
	keep_until  integer,
	resign      boolean not null default false,
	unique (name, token)
) without rowid;
-- The highest token of a row that was deleted, so that tokens go on rising.
create table if not exists "lease_token" (token integer not null);
insert into "lease_token" (token) select 0 where not exists (select 1 from "lease_token");
-- +goose StatementBegin
create trigger if not exists "lease_deleted" after delete on "lease" begin
	update "lease_token" set token = max(token, old.token);
end;
-- +goose StatementEnd
