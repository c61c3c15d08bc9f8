create table event (
	id         text primary key,
	title      text not null,
	seats_left integer not null check (seats_left >= 0),
	version    integer not null default 0
);
create table ticket (
	id    integer primary key,
	event text not null references event (id),
	buyer text not null,
	seats integer not null,
	paid  boolean not null default false
);
