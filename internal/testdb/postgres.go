package testdb

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"
)

// PostgresBinEnv names the folder of PostgreSQL's binaries, for a version other than the newest one found.
const PostgresBinEnv = "HOLDFAST_POSTGRES_BIN"

// StartPostgres starts a PostgreSQL server with an empty database, and with durability on. The caller closes it.
func StartPostgres(ctx context.Context) (*Server, error) { return startPostgres(ctx, FreePort) }

func startPostgres(ctx context.Context, ports func(context.Context) (int, error)) (*Server, error) {
	return startCluster(ctx, ports, newCluster)
}

// StartPostgresStandby starts a PostgreSQL server that follows primary, asynchronously, and answers queries. The function
// pg_promote() makes it a primary. The caller closes it.
func StartPostgresStandby(ctx context.Context, primary *Server) (*Server, error) {
	return startCluster(ctx, FreePort, func(data string, command program) error {
		out, err := command("pg_basebackup", "-D", data, "-d", primary.URL(), "-R", "-X", "stream", "-c", "fast", "--no-sync").CombinedOutput()
		if err != nil {
			return fmt.Errorf("pg_basebackup: %w: %s", err, out)
		}
		return nil
	})
}

// A program makes a command of one of PostgreSQL's programs.
type program func(name string, args ...string) *exec.Cmd

// newCluster makes an empty database.
func newCluster(data string, command program) error {
	// The data folder is thrown away after a crash of the machine, so only initdb may leave out its sync.
	out, err := command("initdb", "-D", data, "-U", "holdfast", "-A", "trust", "-E", "UTF8", "--no-sync").CombinedOutput()
	if err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	single := command("postgres", "--single", "-F", "-D", data, "postgres")
	single.Stdin = strings.NewReader("create database holdfast\n")
	if out, err := single.CombinedOutput(); err != nil {
		return fmt.Errorf("create database: %w: %s", err, out)
	}
	return nil
}

// startCluster starts a server on the data folder that fill makes.
func startCluster(
	ctx context.Context, ports func(context.Context) (int, error), fill func(data string, command program) error,
) (*Server, error) {
	bin, err := find("postgres", PostgresBinEnv, "/usr/lib/postgresql/*/bin", "/usr/local/pgsql/bin", "/opt/homebrew/opt/postgresql*/bin")
	if err != nil {
		return nil, err
	}
	as, err := unprivileged()
	if err != nil {
		return nil, err
	}
	return startWith(ctx, ports, func(port int) (*Server, error) { return newPostgres(ctx, bin, as, port, fill) })
}

func newPostgres(
	ctx context.Context, bin string, as *account, port int, fill func(data string, command program) error,
) (s *Server, err error) {
	dir, err := newFolder("postgres")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(dir)
		}
	}()
	if err := as.own(dir); err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	command := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(filepath.Dir(bin), name), args...) //nolint:noctx // the server outlives the call
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "LC_ALL=C")
		as.run(cmd)
		return cmd
	}
	if err := fill(data, command); err != nil {
		return nil, err
	}
	s = &Server{
		url:     fmt.Sprintf("postgres://holdfast@127.0.0.1:%d/holdfast?sslmode=disable", port),
		dir:     dir,
		bin:     filepath.Dir(bin),
		version: versionOf(ctx, bin),
		stop:    syscall.SIGINT, // "fast": does not wait for clients
		launch: func() *exec.Cmd {
			return command("postgres", "-D", data, "-p", strconv.Itoa(port), "-k", socketFolder(dir),
				"-c", "listen_addresses=127.0.0.1", "-c", "fsync=on", "-c", "synchronous_commit=on",
				"-c", "max_connections=200", "-c", "max_prepared_transactions=0")
		},
	}
	s.ping = func(ctx context.Context) error { return pingPostgres(ctx, s.url, data) }
	return s, nil
}

// socketFolder returns where the server puts its socket. It ends at once if the path is longer than the system takes, so
// below a long temporary folder there is none, and the port alone serves.
func socketFolder(dir string) string {
	const most = 103 // on macOS; Linux takes 107
	if len(filepath.Join(dir, ".s.PGSQL.65535")) > most {
		return ""
	}
	return dir
}

// pingPostgres succeeds when the server of the data folder answers.
func pingPostgres(ctx context.Context, url, data string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	var theirs string
	if err := conn.QueryRow(ctx, "show data_directory").Scan(&theirs); err != nil {
		return err
	}
	return sameFolder(theirs, data)
}
