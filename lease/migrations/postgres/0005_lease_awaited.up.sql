-- +goose Up
-- Somebody waits for the lease, until then at the longest: who frees it notifies.
alter table "lease" add column if not exists awaited_until timestamptz;
