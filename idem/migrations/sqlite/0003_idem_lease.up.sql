-- +goose Up
-- For work that leaves the database: its row is there while it runs.
alter table "idem_key" add column input blob;
alter table "idem_key" add column steps blob;
alter table "idem_key" add column note text;
alter table "idem_key" add column waiters boolean not null default false;
create index if not exists "idem_key_open" on "idem_key" (created_at, k) where state in (1, 5, 6);
-- The highest epoch of a row that was deleted, so that epochs go on rising.
create table if not exists "idem_key_epoch" (epoch integer not null);
insert into "idem_key_epoch" (epoch) select 0 where not exists (select 1 from "idem_key_epoch");
-- +goose StatementBegin
create trigger if not exists "idem_key_deleted" after delete on "idem_key" when old.epoch > 0 begin
	update "idem_key_epoch" set epoch = max(epoch, old.epoch);
end;
-- +goose StatementEnd
