package tx

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
)

// historyTable lists what was applied, one row a migration, in the schema of its tables.
const historyTable = "holdfast_migration"

const createHistory = `create table if not exists "holdfast_migration" (
	set_name   text not null,
	number     integer not null,
	name       text not null,
	checksum   text not null,
	applied_at text not null,
	primary key (set_name, number)
)`

// Migrate applies what is missing of each set, in order, each set in one transaction under a lock: processes that start
// together do not collide, and a failure leaves the set as it was. Migrating what is up to date changes nothing.
//
// It returns a [*MigrationError], a [*NameError], or an error of [DB.Do].
func Migrate[T any](ctx context.Context, db *DB[T], sets ...Migrations) error {
	// A lock that was waited for must be followed by a fresh snapshot.
	db = db.With(Options{Isolation: ReadCommitted, CommitTimeout: db.o.CommitTimeout, Attempts: db.o.Attempts})
	for _, set := range sets {
		steps, err := set.load(db.Dialect())
		if err != nil {
			return err
		}
		err = db.Do(ctx, func(ctx context.Context, t T) error {
			return set.apply(ctx, db.Tx(t), steps)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (m Migrations) apply(ctx context.Context, t Tx, steps []migration) error {
	if err := m.enter(ctx, t); err != nil {
		return err
	}
	applied, err := m.applied(ctx, t)
	if err != nil {
		return err
	}
	for _, step := range steps {
		switch checksum, done := applied[step.number]; {
		case done && checksum != step.checksum:
			return &MigrationError{Set: m.Set, Name: step.name, Err: ErrMigrationChanged}
		case done:
			continue
		}
		if _, err := t.Exec(ctx, step.sql); err != nil {
			return &MigrationError{Set: m.Set, Name: step.name, Err: err}
		}
		if err := m.record(ctx, t, step); err != nil {
			return err
		}
	}
	return nil
}

// enter takes the lock, goes into the schema, and makes sure of the history table.
func (m Migrations) enter(ctx context.Context, t Tx) error {
	if t.Dialect().Capabilities.AdvisoryLocks {
		if _, err := t.Exec(ctx, "select pg_advisory_xact_lock($1::bigint)", lockNumber(historyTable)); err != nil {
			return err
		}
	}
	if m.Schema != "" {
		schema := t.Dialect().Quote(m.Schema)
		if _, err := t.Exec(ctx, "create schema if not exists "+schema); err != nil {
			return err
		}
		if _, err := t.Exec(ctx, "set local search_path to "+schema); err != nil {
			return err
		}
	}
	_, err := t.Exec(ctx, createHistory)
	if sqlState(err) == "3F000" { // invalid_schema_name
		// Told by its text: the advice to apply the migrations would lead in a circle.
		return fmt.Errorf("tx: there is no schema to create the tables in: create that of search_path, or name one: %v", err) //nolint:errorlint // see above
	}
	return err
}

func (m Migrations) applied(ctx context.Context, t Tx) (map[int]string, error) {
	rows, err := t.Query(ctx, `select number, checksum from "holdfast_migration" where set_name = $1`, m.identity())
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	applied := map[int]string{}
	for rows.Next() {
		var number int
		var checksum string
		if err := rows.Scan(&number, &checksum); err != nil {
			return nil, err
		}
		applied[number] = checksum
	}
	return applied, rows.Err()
}

func (m Migrations) record(ctx context.Context, t Tx, step migration) error {
	now := "clock_timestamp()::text"
	if t.Dialect() == SQLite {
		now = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"
	}
	_, err := t.Exec(ctx, fmt.Sprintf(`insert into "holdfast_migration" (set_name, number, name, checksum, applied_at)
		values ($1, $2, $3, $4, %s)`, now), m.identity(), step.number, step.name, step.checksum)
	return err
}

// identity tells apart two uses of one package with different table names.
func (m Migrations) identity() string {
	id := m.Set
	for _, old := range slices.Sorted(maps.Keys(m.Rename)) {
		if m.Rename[old] != old {
			id += fmt.Sprintf(" %q", m.Rename[old])
		}
	}
	return id
}

// lockNumber makes the number of an advisory lock of a name.
func lockNumber(name string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return int64(h.Sum64()) //nolint:gosec // the bits are all that matters
}
