package idemtest_test

import (
	"errors"
	"io/fs"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/idem"
	"github.com/holdfast-go/holdfast/internal/testdb"
	"github.com/holdfast-go/holdfast/internal/testdb/pgxdb"
	"github.com/holdfast-go/holdfast/tx"
	"github.com/holdfast-go/holdfast/tx/pgxtx"
)

func TestProcessesThatMigrateTogether(t *testing.T) {
	t.Parallel()
	db := pgxtx.New(pgxdb.Pool(t, testdb.Postgres(t), 8))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := idem.Migrate(t.Context(), db, idem.Names{}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	var n int
	if err := db.Conn().QueryRow(t.Context(), "select count(*) from holdfast_migration").Scan(&n); err != nil || n != 3 {
		t.Fatalf("%d migrations in the history, %v", n, err)
	}
}

func TestMigrateIntoASchemaOfItsOwn(t *testing.T) {
	t.Parallel()
	pool := pgxdb.Pool(t, testdb.Postgres(t), 8)
	db := pgxtx.New(pool)
	var schema string
	if err := pool.QueryRow(t.Context(), "select current_schema() || ' \"of its own\"'").Scan(&schema); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := pool.Exec(t.Context(), "drop schema if exists "+tx.PostgreSQL.Quote(schema)+" cascade"); err != nil {
			t.Log(err)
		}
	})
	names := idem.Names{Schema: schema, Keys: `k"eys`}
	for range 2 {
		if err := idem.Migrate(t.Context(), db, names); err != nil {
			t.Fatal(err)
		}
	}
	keys := idem.New(db, &idem.Options{Schema: schema, Table: `k"eys`})
	if err := keys.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := idem.New(db, nil).Check(t.Context()); !errors.Is(err, tx.ErrNotMigrated) {
		t.Fatalf("the search path was reached: %v", err)
	}
	if _, err := pool.Exec(t.Context(), "drop schema "+tx.PostgreSQL.Quote(schema)+" cascade"); err != nil {
		t.Fatal(err)
	}
}

// Other tools apply the files as they are; Migrate finds the tables and goes on from there.
func TestFilesAppliedByAnotherTool(t *testing.T) {
	t.Parallel()
	pool := pgxdb.Pool(t, testdb.Postgres(t), 8)
	files, err := fs.Glob(idem.Migrations, "postgres/*.up.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		text, err := fs.ReadFile(idem.Migrations, file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := pool.Exec(t.Context(), string(text), pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	db := pgxtx.New(pool)
	if err := idem.New(db, nil).Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := idem.Migrate(t.Context(), db, idem.Names{}); err != nil {
		t.Fatal(err)
	}
}

func TestMigrationsThatGoWrong(t *testing.T) {
	t.Parallel()
	pool := pgxdb.Pool(t, testdb.Postgres(t), 8)
	db := pgxtx.New(pool)
	migrate := func(second string) error {
		return tx.Migrate(t.Context(), db, tx.Migrations{Set: "mine", FS: fstest.MapFS{
			"postgres/0001_first.up.sql":  {Data: []byte(`create table "first" (id int)`)},
			"postgres/0002_second.up.sql": {Data: []byte(second)},
		}})
	}
	var m *tx.MigrationError
	if err := migrate(`create table "second" (id int); select 1/0`); !errors.As(err, &m) || m.Name != "0002_second.up.sql" {
		t.Fatalf("got %v", err)
	}
	var n int
	if err := pool.QueryRow(t.Context(), "select count(*) from pg_tables where schemaname = current_schema()").Scan(&n); err != nil || n != 0 {
		t.Fatalf("a failed set left %d tables, %v", n, err)
	}
	if err := migrate(`create table "second" (id int)`); err != nil {
		t.Fatal(err)
	}
	if err := migrate(`create table "second" (id bigint)`); !errors.Is(err, tx.ErrMigrationChanged) {
		t.Fatalf("got %v", err)
	}
}
