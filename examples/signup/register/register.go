// Package register is the signup story: two requests create the same user, and two guests book one slot.
package register

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/tx"
)

// ErrTaken: the address belongs to somebody.
var ErrTaken = errors.New("the address is taken")

// ErrBooked: somebody has the room at that time.
var ErrBooked = errors.New("the room is booked at that time")

// Register creates a user and lets the unique index decide: no look beforehand, and no lock. Of any number of requests at
// once one wins, and the others are told.
func Register[T any](ctx context.Context, db *tx.DB[T], email string) error {
	err := db.Do(ctx, func(ctx context.Context, t T) error {
		_, err := db.Tx(t).Exec(ctx, "insert into member (email) values ($1)", email)
		return err
	})
	if _, taken := tx.UniqueViolation(err); taken {
		return ErrTaken
	}
	return err
}

// Book books a room from a minute for as long as given, and lets the constraint decide: on PostgreSQL an exclusion
// constraint, which forbids overlaps; on SQLite, which has none, a unique slot. Inserts that meet in an exclusion constraint
// wait for each other and deadlock, so that guests of one room queue at its row first. The constraint still decides.
func Book[T any](ctx context.Context, db *tx.DB[T], guest string, room, from, minutes int) error {
	err := db.Do(ctx, func(ctx context.Context, t T) error {
		conn := db.Tx(t)
		if conn.Dialect().Capabilities.RowLocks {
			if _, err := conn.Exec(ctx, "select from room where id = $1 for no key update", room); err != nil {
				return err
			}
		}
		query := "insert into booking (guest, room, start, finish) values ($1, $2, $3, $4)"
		_, err := conn.Exec(ctx, query, guest, room, from, from+minutes)
		return err
	})
	if _, booked := tx.ExclusionViolation(err); booked {
		return ErrBooked
	}
	if _, booked := tx.UniqueViolation(err); booked {
		return ErrBooked
	}
	return err
}

// NaiveRegister looks whether the address is free, and then takes it.
func NaiveRegister[T any](ctx context.Context, db *tx.DB[T], email string) error {
	var n int
	if err := db.Conn().QueryRow(ctx, "select count(*) from naive_member where email = $1", email).Scan(&n); err != nil {
		return err
	}
	if n > 0 {
		return ErrTaken
	}
	_, err := db.Conn().Exec(ctx, "insert into naive_member (email) values ($1)", email)
	return err
}

// NaiveBook looks whether the room is free, and then takes it.
func NaiveBook[T any](ctx context.Context, db *tx.DB[T], guest string, room, from, minutes int) error {
	var n int
	err := db.Conn().QueryRow(ctx, "select count(*) from naive_booking where room = $1 and start < $2 and finish > $3",
		room, from+minutes, from).Scan(&n)
	if err != nil {
		return err
	}
	if n > 0 {
		return ErrBooked
	}
	_, err = db.Conn().Exec(ctx, "insert into naive_booking (guest, room, start, finish) values ($1, $2, $3, $4)", guest, room, from, from+minutes)
	return err
}

// Migrate makes the tables. The constraints are the whole point.
func Migrate[T any](ctx context.Context, db *tx.DB[T]) error {
	// int4range(room, room, '[]') overlaps another exactly when the rooms are equal, so no extension is needed.
	constraint := "exclude using gist (int4range(room, room, '[]') with &&, int4range(start, finish) with &&)"
	if !db.Dialect().Capabilities.ExclusionConstraints {
		constraint = "unique (room, start)"
	}
	for _, table := range []string{
		"create table member (email text not null unique)",
		"create table naive_member (email text not null)",
		"create table booking (guest text not null, room integer not null, start integer not null, finish integer not null, " + constraint + ")",
		"create table room (id integer primary key)",
		"insert into room (id) values (1)",
		"create table naive_booking (guest text not null, room integer not null, start integer not null, finish integer not null)",
	} {
		if _, err := db.Conn().Exec(ctx, table); err != nil {
			return fmt.Errorf("create the tables of the example: %w", err)
		}
	}
	return nil
}
