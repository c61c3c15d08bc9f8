-- +goose Up
create table if not exists "idem_key" (
	k           bytea primary key,                                -- digest of scope, name and value
	scope       text not null,                                    -- tenant or caller
	name        text not null,                                    -- operation
	state       smallint not null,                                -- 1 running, 2 completed, 3 failed, 4 tombstone
	fp          bytea not null,                                   -- fingerprint of the request, empty if there is none
	nonce       bigint not null,                                  -- which execution wrote the row
	epoch       bigint not null default 0,                        -- fence of work that leaves the database
	lease_until timestamptz,                                      -- until when such work is left alone
	attempts    integer not null default 1,
	codec       smallint not null default 0,                      -- 0 not retained, 1 bytes, 2 JSON
	status      integer not null default 0,                       -- status of a failure
	body        bytea,                                            -- the stored answer
	created_at  timestamptz not null default clock_timestamp(),
	expires_at  timestamptz not null
);
create index if not exists "idem_key_expires_at" on "idem_key" (expires_at);
