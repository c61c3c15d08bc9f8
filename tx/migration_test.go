package tx

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
)

func files(names ...string) fstest.MapFS {
	fs := fstest.MapFS{}
	for _, name := range names {
		fs["postgres/"+name] = &fstest.MapFile{Data: []byte(`create table "thing" (id int); create index "thing_id" on "thing" (id); select 'thing', "thingy"`)}
	}
	return fs
}

func TestMigrationsAreNumberedWithoutGaps(t *testing.T) {
	t.Parallel()
	for want, names := range map[error][]string{
		ErrMigrationGap:  {"0001_a.up.sql", "0003_b.up.sql"},
		ErrMigrationName: {"1_a.up.sql"},
		nil:              {"0002_b.up.sql", "0001_a.up.sql"},
	} {
		steps, err := Migrations{Set: "s", FS: files(names...)}.load(PostgreSQL)
		var m *MigrationError
		if !errors.Is(err, want) || want != nil && (!errors.As(err, &m) || m.Set != "s") {
			t.Errorf("%v: got %v, want %v", names, err, want)
		}
		if want == nil && (len(steps) != 2 || steps[0].number != 1) {
			t.Errorf("got %+v", steps)
		}
	}
	if _, err := (Migrations{Set: "s", FS: files("0002_a.up.sql")}).load(PostgreSQL); !errors.Is(err, ErrMigrationGap) {
		t.Errorf("got %v", err)
	}
	if _, err := (Migrations{Set: "s", FS: files("0001_a.up.sql")}).load(SQLite); err == nil {
		t.Error("a dialect without a folder has no migrations")
	}
}

func TestMigrationsRenameTables(t *testing.T) {
	t.Parallel()
	steps, err := Migrations{FS: files("0001_a.up.sql"), Rename: map[string]string{"thing": `my"own`}}.load(PostgreSQL)
	if err != nil {
		t.Fatal(err)
	}
	want := `create table "my""own" (id int); create index "my""own_id" on "my""own" (id); select 'thing', "thingy"`
	if steps[0].sql != want {
		t.Errorf("got %s", steps[0].sql)
	}
	both := Migrations{
		FS:     fstest.MapFS{"postgres/0001_a.up.sql": {Data: []byte(`create table "thing"; create table "thing_op"; create index "thing_op_at"; create index "thing_at"`)}},
		Rename: map[string]string{"thing": "thing_op", "thing_op": "mine"},
	}
	for range 20 { // a map has no order
		steps, err := both.load(PostgreSQL)
		if want := `create table "thing_op"; create table "mine"; create index "mine_at"; create index "thing_op_at"`; err != nil || steps[0].sql != want {
			t.Fatalf("one name begins with the other: got %s, %v", steps[0].sql, err)
		}
	}
	for _, name := range []string{"", "a\x00", "\xff", strings.Repeat("x", 41)} {
		_, err := Migrations{FS: files("0001_a.up.sql"), Rename: map[string]string{"thing": name}}.load(PostgreSQL)
		var n *NameError
		if !errors.As(err, &n) {
			t.Errorf("%q: got %v", name, err)
		}
	}
	if _, err := (Migrations{FS: files("0001_a.up.sql"), Schema: "s"}).load(SQLite); err == nil {
		t.Error("SQLite has no schemas")
	}
}

func TestRebind(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"select $1, $12":                    "select ?1, ?12",
		`select '$1', "$2", $3`:             `select '$1', "$2", ?3`,
		"select 'it''s $1', $2":             "select 'it''s $1', ?2",
		"select '$1":                        "select '$1",
		"select $ , $a, $0, $":              "select $ , $a, $0, $",
		`select "a""$1", $1`:                `select "a""$1", ?1`,
		"select 1 -- nothing to do\n":       "select 1 -- nothing to do\n",
		"insert into t values ($1,$2),($3)": "insert into t values (?1,?2),(?3)",
	} {
		if got := SQLite.Rebind(in); got != want {
			t.Errorf("Rebind(%q) = %q, want %q", in, got, want)
		}
		if got := PostgreSQL.Rebind(in); got != in {
			t.Errorf("PostgreSQL rewrote %q", in)
		}
	}
}

func FuzzMigrationName(f *testing.F) {
	for _, name := range []string{"0001_a.up.sql", "1_a.up.sql", "0001_a.down.sql", "0001_A.up.sql", "0001_.up.sql", "9999_x_1.up.sql", "0001_a.up.sql\n", "../0001_a.up.sql"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		n, err := migrationNumber(name)
		if err != nil {
			if !errors.Is(err, ErrMigrationName) {
				t.Fatalf("got %v", err)
			}
			return
		}
		if n < 0 || n > 9999 || !strings.HasPrefix(name, fmt.Sprintf("%04d_", n)) || !strings.HasSuffix(name, ".up.sql") || strings.ContainsAny(name, "/\\\x00\n ") {
			t.Fatalf("%q is number %d", name, n)
		}
	})
}

func FuzzQuote(f *testing.F) {
	f.Add(`a"b`)
	f.Fuzz(func(t *testing.T, name string) {
		quoted := PostgreSQL.Quote(name)
		inner := quoted[1 : len(quoted)-1]
		if strings.ReplaceAll(inner, `""`, `"`) != name || strings.Count(inner, `"`) != 2*strings.Count(name, `"`) {
			t.Fatalf("%q became %s", name, quoted)
		}
	})
}
