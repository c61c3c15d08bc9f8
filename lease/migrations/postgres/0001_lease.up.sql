-- +goose Up
create sequence if not exists "lease_token";
create table if not exists "lease" (
	name        text primary key,
	token       bigint not null,                                  -- rises with each acquisition
	nonce       text,                                             -- which acquisition holds it; null when it is free
	holder      text,
	meta        text,
	acquired_at timestamptz not null,
	expires_at  timestamptz not null,
	keep_until  timestamptz,                                      -- at-least-for: free no earlier, also after a release
	resign      boolean not null default false,                   -- the holder is asked to let go
	unique (name, token)                                          -- makes the token part of a key: a takeover waits for guards, a renewal does not
) with (fillfactor = 70);
