package testdb_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func TestPostgresGivesEachTestItsOwnSchema(t *testing.T) {
	t.Parallel()
	var mine, others string
	t.Run("two tests", func(t *testing.T) {
		for _, schema := range []*string{&mine, &others} {
			conn := connect(t, testdb.Postgres(t))
			if _, err := conn.Exec(t.Context(), "create table thing (id int)"); err != nil {
				t.Fatal(err)
			}
			if err := conn.QueryRow(t.Context(), "select current_schema").Scan(schema); err != nil {
				t.Fatal(err)
			}
		}
	})
	if mine == others {
		t.Errorf("both have %s", mine)
	}
	var left int
	if err := connect(t, testdb.Postgres(t)).QueryRow(t.Context(),
		"select count(*) from pg_namespace where nspname in ($1, $2)", mine, others).Scan(&left); err != nil || left != 0 {
		t.Errorf("%d schemas are left after their tests, %v", left, err)
	}
}

func TestKilledPostgresKeepsWhatWasCommitted(t *testing.T) {
	t.Parallel()
	s := testdb.PostgresServer(t)
	conn := connect(t, s.URL())
	if _, err := conn.Exec(t.Context(), "create table thing as select 42 as n"); err != nil {
		t.Fatal(err)
	}
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "select 1"); err == nil {
		t.Fatal("the killed server answers")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	var n int
	if err := connect(t, s.URL()).QueryRow(ctx, "select n from thing").Scan(&n); err != nil || n != 42 {
		t.Fatalf("got %d, %v", n, err)
	}
}

// A backend in the middle of a long statement does not look whether its parent lives. It would keep the data in use, and
// could still commit.
func TestKilledPostgresLeavesNoBackendBehind(t *testing.T) {
	t.Parallel()
	s := testdb.PostgresServer(t)
	for range 3 {
		busy := connect(t, s.URL())
		ended := make(chan error, 1)
		go func() {
			_, err := busy.Exec(context.Background(), "select count(*) from generate_series(1, 1000000000)")
			ended <- err
		}()
		watch := connect(t, s.URL())
		for n := 0; n == 0; {
			if err := watch.QueryRow(t.Context(), "select count(*) from pg_stat_activity where state = 'active' and pid = $1",
				busy.PgConn().PID()).Scan(&n); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Kill(); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-ended:
			if err == nil {
				t.Fatal("the statement ended well")
			}
		case <-time.After(20 * time.Second):
			t.Fatal("the backend works on")
		}
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// The path of a socket may have some hundred characters, and folders of tests come close to that by themselves.
func TestPostgresStartsInAFolderWithALongName(t *testing.T) {
	parent, err := os.MkdirTemp("", strings.Repeat("long", 25))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(parent) })
	if err := os.Chmod(parent, 0o755); err != nil { //nolint:gosec // another user runs the server
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", parent)
	connect(t, testdb.PostgresServer(t).URL())
}

func TestServersSayTheirVersion(t *testing.T) {
	t.Parallel()
	s := testdb.PostgresServer(t)
	var version string
	if err := connect(t, s.URL()).QueryRow(t.Context(), "show server_version").Scan(&version); err != nil {
		t.Fatal(err)
	}
	if s.Version() == "" || !strings.HasPrefix(version, s.Version()) {
		t.Errorf("the binary says %q, the server %q", s.Version(), version)
	}
}

func TestRedisStartsAndStops(t *testing.T) {
	t.Parallel()
	s := testdb.RedisServer(t)
	if !strings.HasPrefix(s.URL(), "redis://127.0.0.1:") {
		t.Fatalf("url %q", s.URL())
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}
