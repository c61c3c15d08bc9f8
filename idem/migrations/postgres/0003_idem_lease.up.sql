-- +goose Up
-- For work that leaves the database: its row is there while it runs.
create sequence if not exists "idem_key_epoch";                      -- follows the clock, see the claim
alter table "idem_key" add column if not exists input bytea;         -- what a completer does the work with
alter table "idem_key" add column if not exists steps bytea;         -- what is known of them, as the owner stores it
alter table "idem_key" add column if not exists note text;           -- why it was parked
alter table "idem_key" add column if not exists waiters boolean not null default false; -- somebody is to be notified
-- No renewal changes a column of it.
create index if not exists "idem_key_open" on "idem_key" (created_at, k) where state in (1, 5, 6);
comment on column "idem_key".state is '1 running, 2 completed, 3 failed, 4 tombstone, 5 unknown, 6 pending';
